// The page of one agent: its trajectories, its outputs, and their attribution.
import { get, writable, derived } from "svelte/store";
import { takenAction } from "../../data/actions.js";
import { nextMatch } from "../../data/find.js";
import { createFrames } from "../../data/frames.js";
import { objectsOf } from "../../data/objects.js";
import { decompositionFor, findOutput } from "../../data/questions.js";
import { createRegionSums } from "../../data/region.js";
import { createResource } from "../../data/resource.js";
import { channelColors, withColors } from "../../kit/image/colors.js";
import { composeImage } from "../../kit/image/compose.js";
import { definePage } from "../../kit/page/page.js";
import { formatNumber } from "../../kit/shell/format.js";
import { chooseChannels, toggleChannel, toggleSolo } from "./channels.js";
import { FIELDS, notes } from "./fields.js";
import { overlayOf, requestImage } from "./image.js";
import { createMatches } from "./matches.js";
import * as panels from "./panels.js";
import { createReport } from "./report.js";
import { firstTarget, rowTarget } from "./rows.js";
import { filesOf } from "./export.js";

/** Panels that only a page with layers has. */
const OF_LAYERS = ["attribution", "legend", "feature", "features", "export"];

/** How to read attribution, unless a section has notes of its own. */
const EXPLANATIONS = [
  {
    title: "How to read attribution",
    text: "Attribution divides an output, such as the value function, among the positions of a layer and the features that the network detected there, by integrated gradients. It shows what the network used, not whether it was right to use it.",
  },
];

export const AGENT = {
  fields: FIELDS,
  notes,
  panels,
  time: { episode: "trajectory", frame: "frame", window: "visible" },
  steps: ({ trajectories }, _, episode) => trajectories[episode]?.steps,
  checkpoint: ({ agent }) => agent.id,
  sections: ["trajectories", "features", "attribution", "ablation", "saliency", "baseline", "agreement"],
  layout: {
    navigation: ["trajectories", "bookmarks"],
    main: ["timeline", "findings", "failures", "failure_survival", "attribution", "outputs", "inputs", "objects"],
    legend: ["legend"],
    aside: ["feature", "features", "find", "notes", "trust", "export", "help"],
  },
  labels: { navigation: "Trajectories and bookmarks", skip: "Skip to the timeline" },
  aliases: { thoughts: "outputs" },
  keys: [
    { keys: ["[", "]"], field: "trajectory", and: { frame: 0 }, text: "previous or next trajectory" },
    { keys: [",", "."], field: "layer", panel: "legend", text: "previous or next layer" },
    { keys: [..."123456789"], show: "1 \u2013 9", action: "channel", panel: "legend", text: "show or hide a feature" },
    { keys: ["0"], action: "channels", panel: "legend", text: "show all features" },
    {
      keys: ["s"],
      action: "solo",
      panel: "legend",
      text: "show only the feature under the pointer or with the focus; press again to show all",
    },
    { keys: ["g", "G"], action: "match", panel: "find", text: "next or (Shift) previous matching frame" },
    { keys: ["l"], action: "features", panel: "features", text: "table of all features of the layer" },
    { keys: ["r"], field: "residual", panel: "attribution", text: "show or hide the residual" },
    {
      keys: ["m"],
      field: "mixed",
      panel: "attribution",
      text: "hues of all features mixed, or only the strongest feature's hue",
    },
    { keys: ["b"], field: "combined", panel: "attribution", text: "positive and negative attribution in one image" },
    { keys: ["o"], field: "overlay", panel: "attribution", text: "attribution over the observation, or alone" },
    { keys: ["w"], action: "what_if", panel: "what_if", text: "open or close “What if”" },
    { keys: ["x"], field: "objects", panel: "objects", text: "boxes around objects over the observation" },
  ],
  tour: [
    ["timeline", "Timeline", "Drag the filmstrip, or press space to play. All panels show the frame at the line."],
    [
      "attribution",
      "Attribution",
      "What raised (positive) or lowered (negative) the output. Each color is a feature; the panel Features shows examples.",
    ],
    [
      "bookmarks",
      "Bookmarks",
      "Where the agent did unexpectedly well or badly: a good place to start. Press ? for help.",
    ],
  ],
  problemWith: ({ trajectories }) => (trajectories.length ? null : "This page has no trajectories."),
  facts: ({ env_name: name, agent, trajectories: { length } }) => [
    name,
    agent.network && `${agent.network} network`,
    `${length} ${length === 1 ? "trajectory" : "trajectories"}`,
  ],
  filesOf,
  extend,
  scripting,
};

export const agent = definePage(AGENT);

/** @param {import("../../types").Page} page */
function extend(page) {
  const { manifest, chunks, selection, clock, partner } = page;
  const series = createResource(chunks);
  selection.subscribe(({ trajectory }) => series.want(manifest.trajectories[trajectory].series));
  const palette = derived(selection, (now) => now.palette);
  const ownColors = derived(palette, (name) => manifest.layers.map((layer) => channelColors(layer, name)));
  Object.assign(page, {
    frames: createFrames(manifest, chunks),
    regionSums: createRegionSums(chunks),
    /** What the selection's search finds. */
    matches: createMatches(page),
    /** Numbers along the selected trajectory. */
    series,
    ownColors,
    /** Those of a page beside this one, where features of both match. */
    colors: derived([ownColors, partner], ([own, other]) =>
      other ? own.map((list, i) => withColors(list, other.colors[manifest.layers[i].slug])) : own,
    ),
    /** A frame in words. */
    describe({ trajectory, frame }) {
      const parts = [`frame ${frame + 1}`];
      const arrays = trajectory === selection.now.trajectory ? get(series).chunk?.arrays : null;
      if (arrays && frame < arrays.rewards.data.length) {
        const [advantage, reward] = ["advantages", "rewards"].map((key) => arrays[key]?.data[frame]);
        parts.push(`action ${takenAction(manifest, arrays, frame)}`);
        if (advantage !== undefined) parts.push(`advantage ${formatNumber(advantage, 3)}`);
        if (reward) parts.push(`reward ${formatNumber(reward, 3)}`);
      }
      return parts.join(" \u00b7 ");
    },
    /** The {layer, channel} that is shown alone while the pointer is on it, or null. */
    isolated: writable(null),
    /** The {layer, channel} that was looked at last, or null. */
    feature: followFeature(selection, page.drawer),
    explanations: [
      ...(manifest.explanations.length || !manifest.layers.length ? manifest.explanations : EXPLANATIONS),
      ...manifest.methods,
    ],
    hasPanel(name) {
      if (["findings", "failures", "failure_survival", "what_if"].includes(name))
        return manifest.others.some(({ kind }) => kind === name);
      if (name === "bookmarks") return Boolean(manifest.bookmarks);
      if (name === "inputs") return Boolean(manifest.inputs?.length);
      if (name === "objects") return Boolean(objectsOf(manifest));
      return manifest.layers.length > 0 || !OF_LAYERS.includes(name);
    },
    actions: {
      match(key) {
        const { trajectory, frame } = selection.now;
        const match = nextMatch(get(page.matches).matches ?? [], { trajectory, frame }, key === "g" ? 1 : -1);
        if (match) clock.go({ episode: match.trajectory, frame: match.frame });
      },
      solo() {
        const place = get(page.isolated) ?? selection.now.solo;
        if (place) toggleSolo(page, place);
      },
      channel: (key) => toggleChannel(page, Number(key) - 1),
      features: () => page.drawer.update((now) => (now?.name === "features" ? null : { name: "features" })),
      /** Open What if and scroll to it; its key also closes it. */
      what_if(key, edit = selection.now.edit || "open") {
        selection.change({ edit: key && selection.now.edit ? "" : edit });
        if (selection.now.edit) document.querySelector("[data-panel=what_if]")?.scrollIntoView();
      },
      channels: () => chooseChannels(page, selection.now.layer, null),
    },
  });
  page.report = createReport(page);
  requestImage(page, firstTarget(manifest, selection.now));
}

/** Keep the panel Feature open while the selection has a feature. @returns a store of the feature that was open last */
function followFeature(selection, drawer) {
  const last = writable(null);
  let shown = null;
  selection.subscribe(({ feature }) => {
    if (feature === shown) return;
    shown = feature;
    if (feature) last.set(feature);
    drawer.update((now) => (feature ? { name: "feature", ...feature } : now?.name === "feature" ? null : now));
  });
  drawer.subscribe((now) => {
    const feature = now?.name === "feature" ? { layer: now.layer, channel: now.channel } : null;
    selection.change({ feature });
  });
  return last;
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
function scripting(page) {
  return {
    /**
     * What a row shows in a direction ("pos", "neg", "abs"): premultiplied RGBA in 0..1, row by row; the opacity of the residual's
     * hatch; the positions that exceed the scale; and the scale. `mixed`: with mixed hues, or without; by default as shown.
     */
    compose(row = 0, sign = "pos", mixed = page.selection.now.mixed) {
      const now = { ...page.selection.now, mixed };
      const target = rowTarget(page.manifest, now, now.rows[row]);
      const colors = get(page.colors)[target.layer];
      const options = overlayOf(
        { ...page, selection: { now } },
        { target, sign, isolated: get(page.isolated), colors },
      );
      if (!options) return null;
      const { height, width, premultiplied, residual, clipped } = composeImage(options);
      return {
        height,
        width,
        data: Array.from(premultiplied()),
        residual: Array.from(residual),
        clipped,
        scale: "scale" in options ? options.scale : undefined,
      };
    },
    /** A row's decomposition at the frame that is shown: numbers, and a list for features; null while its chunks are not loaded. */
    decomposition(row = 0) {
      const { manifest, chunks } = page;
      const target = rowTarget(manifest, page.selection.now, page.selection.now.rows[row]);
      const totals = chunks.peek(manifest.layers[target.layer].totals?.[target.trajectory]);
      const series = chunks.peek(manifest.trajectories[target.trajectory].series);
      if (!totals || !series) return null;
      const decomposition = decompositionFor(
        manifest,
        totals.arrays,
        findOutput(manifest, target.output),
        series.arrays,
      );
      if (!decomposition) return null;
      const { features, ...others } = decomposition;
      const numbers = Object.entries(others).map(([name, values]) => [name, values[target.frame]]);
      return { ...Object.fromEntries(numbers), features: features.map((values) => values[target.frame]) };
    },
  };
}
