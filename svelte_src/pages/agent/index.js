// The page of one agent: its trajectories, its outputs, and their attribution.
import { derived, get, writable } from "svelte/store";
import { actionLabel } from "../../data/actions.js";
import { cleanNames, mergedNames } from "../../data/names.js";
import { createFrames } from "../../data/frames.js";
import { createRegionSums } from "../../data/region.js";
import { createResource } from "../../data/resource.js";
import { channelColors } from "../../kit/image/colors.js";
import { accountOf, findOutput } from "../../data/questions.js";
import { composeImage } from "../../kit/image/compose.js";
import { formatNumber } from "../../kit/shell/format.js";
import { createKept, createSelection, keepPalette } from "../../kit/shell/page.js";
import { clockOf, createPlayer } from "../../kit/time/clock.js";
import * as codec from "./address.js";
import { nextMatch } from "../../data/find.js";
import { overlayOf, requestImage } from "./image.js";
import { createMatches } from "./matches.js";
import { createNames } from "../../kit/shell/names.js";
import { changed, chooseChannels, firstTarget, rowTarget, toggleChannel, toggleSolo } from "./selection.js";

export { filesOf } from "./export.js";

/** Kinds of sections that this page's own panels draw. */
export const sections = ["trajectories", "features", "attribution", "ablation", "saliency"];

/** Panels by slot; `aside` opens at the side. */
export const layout = {
  navigation: ["trajectories", "bookmarks"],
  main: ["timeline", "attribution", "outputs"],
  legend: ["legend"],
  aside: ["feature", "features", "find", "notes", "trust", "export", "help"],
};

export const labels = { navigation: "Trajectories and bookmarks", skip: "Skip to the timeline" };

/** Other names of panels in addresses, such as those of earlier versions. */
export const aliases = { thoughts: "outputs" };

/** Panels that only a page with layers has. */
const OF_LAYERS = ["attribution", "legend", "feature", "features", "export"];

export const problemWith = (manifest) => (manifest.trajectories.length ? null : "This page has no trajectories.");

export const keys = [
  { keys: ["[", "]"], action: "trajectory", text: "previous or next trajectory", letter: true },
  { keys: [",", "."], action: "layer", text: "previous or next layer", letter: true },
  { keys: [..."123456789"], show: "1 \u2013 9", action: "channel", text: "show or hide a feature", letter: true },
  { keys: ["0"], action: "channels", text: "show all features", letter: true },
  {
    keys: ["s"],
    action: "solo",
    text: "show the feature under the pointer or the focus alone, or all again",
    letter: true,
  },
  { keys: ["g", "G"], action: "match", text: "next or (Shift) previous frame that was found", letter: true },
  { keys: ["l"], action: "features", text: "table of all features of the layer", letter: true },
  { keys: ["r"], action: "residual", text: "show or hide the rest", letter: true },
  { keys: ["m"], action: "mixed", text: "hues of all features mixed, or of the strongest alone", letter: true },
  { keys: ["b"], action: "combined", text: "positive and negative attribution in one image", letter: true },
  { keys: ["o"], action: "overlay", text: "attribution over the observation, or alone", letter: true },
];

/** Stops of the tour: panel, title, text. */
export const tour = [
  [
    "timeline",
    "Timeline",
    "The episodes as a film strip. Drag it, or press the space bar to play. All panels show the frame at the line.",
  ],
  [
    "attribution",
    "Attribution",
    "The parts of the observation that raised (positive) or lowered (negative) the output. Each color is a feature.",
  ],
  [
    "legend",
    "Features",
    "Examples of what activates each feature. Hover over one to see it alone; click it for more examples.",
  ],
  ["outputs", "Outputs", "The probability of each action, and the value that the agent expects."],
  [
    "bookmarks",
    "Bookmarks",
    "Frames where the agent did unexpectedly well or badly: a good place to start. Press ? at any time for help.",
  ],
];

/** How to read attribution, unless a section has notes of its own. */
const EXPLANATIONS = [
  {
    title: "How to read attribution",
    text: "Attribution divides an output, such as the value function, among the positions of a layer and the features that the network detected there. Color is the feature, opacity the amount. It is computed by integrated gradients at the chosen layer; the panel Trust shows how closely it adds up. Attribution shows what the network used, not whether it was right to use it.",
  },
];

/** @param {ReturnType<import("../../kit/shell/page.js").createShell>} shell */
export function create(shell, query) {
  const { settings, chunks } = shell;
  // The palette of an earlier visit, unless the address gives one.
  const view = { ...shell.manifest.view, palette: get(settings).palette };
  const manifest = { ...shell.manifest, view };
  const kept = createKept(`rl-clarity:${manifest.id}:names`, {}, (value) => cleanNames(manifest, value));
  const initial = codec.fromQuery(manifest, query);
  initial.names = mergedNames(get(kept), initial.names);
  const selection = createSelection(initial, (now, patch) => changed(manifest, now, patch));
  const clock = clockOf({
    checkpoint: manifest.agent.id,
    lengths: manifest.trajectories.map(({ steps }) => steps),
    subscribe: derived(selection, timeOf).subscribe,
    read: () => timeOf(selection.now),
    change: (patch, kind) => selection.change(fromTime(patch), kind),
  });
  const series = createResource(chunks);
  selection.subscribe(({ trajectory }) => series.want(manifest.trajectories[trajectory].series));
  const palette = derived(selection, (now) => now.palette);
  keepPalette(selection, settings);
  const page = {
    ...shell,
    manifest,
    codec,
    selection,
    clock,
    player: createPlayer(clock, Number(view.video_speed) || 12),
    frames: createFrames(manifest, chunks),
    regionSums: createRegionSums(chunks),
    /** What the selection's search finds. */
    matches: createMatches({ ...shell, manifest, selection, clock }),
    /** Numbers along the selected trajectory. */
    series,
    colors: derived(palette, (name) => manifest.layers.map((layer) => channelColors(layer, name))),
    /** A frame in words. */
    describe({ trajectory, frame }) {
      const parts = [`frame ${frame + 1}`];
      const arrays = trajectory === selection.now.trajectory && get(series).chunk?.arrays;
      if (arrays && frame < arrays.actions.data.length) {
        const [action, advantage, reward] = ["actions", "advantages", "rewards"].map((key) => arrays[key].data[frame]);
        parts.push(`action ${actionLabel(manifest.actions, action)}`, `advantage ${formatNumber(advantage, 3)}`);
        if (reward) parts.push(`reward ${formatNumber(reward, 3)}`);
      }
      return parts.join(" \u00b7 ");
    },
    /** The {layer, channel} that is shown alone while the pointer is on it, or null. */
    isolated: writable(null),
    names: createNames(manifest, selection, kept),
    /** The {layer, channel} that was looked at last, or null. */
    feature: followFeature(selection, shell.drawer),
    explanations: [
      ...(manifest.explanations.length || !manifest.layers.length ? manifest.explanations : EXPLANATIONS),
      ...manifest.methods,
    ],
    hasPanel: (name) => manifest.layers.length > 0 || !OF_LAYERS.includes(name),
    facts: [
      manifest.env_name,
      manifest.agent.network && `${manifest.agent.network} network`,
      `${manifest.trajectories.length} ${manifest.trajectories.length === 1 ? "trajectory" : "trajectories"}`,
    ],
  };
  requestImage(page, firstTarget(manifest, selection.now));
  const toggle = (key) => () => selection.change({ [key]: !selection.now[key] });
  page.actions = {
    trajectory: (key) => clock.go({ episode: selection.now.trajectory + (key === "[" ? -1 : 1), frame: 0 }),
    layer: (key) => selection.change({ layer: selection.now.layer + (key === "," ? -1 : 1) }),
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
    channels: () => chooseChannels(page, selection.now.layer, null),
    residual: toggle("residual"),
    mixed: toggle("mixed"),
    combined: toggle("combined"),
    overlay: toggle("overlay"),
  };
  return page;
}

const timeOf = ({ trajectory, frame, visible }) => ({ episode: trajectory, frame, window: visible });
const NAMES = { episode: "trajectory", frame: "frame", window: "visible" };
const fromTime = (patch) => Object.fromEntries(Object.entries(patch).map(([key, value]) => [NAMES[key], value]));

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
export const scripting = (page) => ({
  /**
   * What a row shows in a direction ("pos", "neg", "abs"): premultiplied RGBA in 0..1, row by row; the opacity of the rest's
   * hatch; the positions that exceed the scale; and the scale. `mixed`: with mixed hues, or without; by default as shown.
   */
  compose(row = 0, sign = "pos", mixed = page.selection.now.mixed) {
    const now = { ...page.selection.now, mixed };
    const target = rowTarget(page.manifest, now, now.rows[row]);
    const colors = get(page.colors)[target.layer];
    const options = overlayOf({ ...page, selection: { now } }, { target, sign, isolated: get(page.isolated), colors });
    if (!options) return null;
    const { height, width, premultiplied, rest, clipped } = composeImage(options);
    return { height, width, data: Array.from(premultiplied()), rest: Array.from(rest), clipped, scale: options.scale };
  },
  /** A row's account at the frame that is shown: numbers, and a list for features; null while its chunks are not loaded. */
  account(row = 0) {
    const { manifest, chunks } = page;
    const target = rowTarget(manifest, page.selection.now, page.selection.now.rows[row]);
    const totals = chunks.peek(manifest.layers[target.layer].totals?.[target.trajectory]);
    const series = chunks.peek(manifest.trajectories[target.trajectory].series);
    if (!totals || !series) return null;
    const account = accountOf(manifest, totals.arrays, findOutput(manifest, target.output), series.arrays);
    if (!account) return null;
    const { features, ...others } = account;
    const numbers = Object.entries(others).map(([name, values]) => [name, values[target.frame]]);
    return { ...Object.fromEntries(numbers), features: features.map((values) => values[target.frame]) };
  },
});
