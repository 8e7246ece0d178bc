// The page of an agent's training: checkpoints side by side, with one selection.
import { derived, get, readable } from "svelte/store";
import { createFrames } from "../../data/frames.js";
import { mapIndex, mapOutputs } from "../../data/saliency.js";
import { toneOf } from "../../kit/image/colors.js";
import { createSelection, keepPalette } from "../../kit/shell/page.js";
import { alignedClock, clockOf, createPlayer, heldFrames } from "../../kit/time/clock.js";
import { argmax } from "../../kit/time/numbers.js";
import { stepOf } from "../../kit/time/align.js";
import { EMPTY } from "../../kit/time/brush.js";
import * as codec from "./address.js";
import { brushedSteps } from "./axes.js";
import {
  checkpointColor,
  episodeLengths,
  methodNamed,
  readCheckpoints,
  readReference,
  trainingData,
} from "./checkpoints.js";
import { createPlays, createShown } from "./data.js";
import { sharesOf } from "./maps.js";
import { changed } from "./selection.js";
import * as trust from "./Trust.svelte";

export { filesOf } from "./export.js";

/** Panels of this page in place of others of the same name. */
export const panels = { trust };

/** Kinds of sections that this page's own panels draw. */
export const sections = ["trajectories", "saliency", "training", "checks"];

/** Panels by slot; `aside` opens at the side. */
export const layout = {
  navigation: ["checkpoints"],
  main: ["play", "curve", "returns", "films", "regions", "steps", "reference", "numbers"],
  legend: [],
  aside: ["notes", "trust", "export", "help"],
};

export const labels = { navigation: "Checkpoints", skip: "Skip to the player" };

export const aliases = { training: "curve", comparison: "films" };

export function problemWith(manifest) {
  const checkpoints = readCheckpoints(manifest);
  if (!checkpoints.length) return "This page has no checkpoints: its section “training” is missing.";
  const without = checkpoints.find(({ manifest: { trajectories } }) => !trajectories.length);
  return without ? `This page has no episodes of checkpoint “${without.name}”.` : null;
}

export const keys = [
  { keys: [",", "."], action: "map", text: "previous or next step that has a saliency map", letter: true },
  { keys: ["[", "]"], action: "episode", text: "previous or next episode", letter: true },
  { keys: ["o"], action: "overlay", text: "maps of both outputs, of the policy, of the value, or none", letter: true },
  { keys: ["p"], action: "path", text: "path of the map's peak", letter: true },
  { keys: ["s"], action: "sync", text: "align episodes by step or by progress", letter: true },
  { keys: ["d"], action: "disagreement", text: "step at which the checkpoints disagree most", letter: true },
];

/** Stops of the tour: panel, title, text. */
export const tour = [
  [
    "curve",
    "Training",
    "How the return grew, with a marker for each checkpoint. Click one to choose it as A; hold Shift to add it.",
  ],
  ["films", "Side by side", "The chosen checkpoints at the same moment of their episodes, and where they look."],
  ["regions", "Regions", "How much of a map falls into parts of the image, over time. Draw boxes of your own."],
  ["steps", "Steps", "Every step is a line. Drag along any axis: all panels keep bright what you have brushed."],
  [
    "reference",
    "One episode, every checkpoint",
    "One episode, shown to every checkpoint: only the network differs. Press ? at any time for help.",
  ],
];

const EXPLANATIONS = [
  {
    title: "How to read saliency maps",
    text: "A saliency map shows where a change of the image would change an output most: the policy (blue) or the value (red). It says how strongly the output depends on a place, not whether what is there is good or bad, nor whether the network is right to look there. Total saliency grows with the size of an output, too: compare shapes and shares before sizes.",
  },
  {
    title: "Own episodes and the same episode",
    text: "In most panels each checkpoint plays its own episode, so that images differ as well as networks. In “One episode, every checkpoint” all see the same images.",
  },
];

const OVERLAYS = ["both", "policy", "value", "none"];

/** @param {ReturnType<import("../../kit/shell/page.js").createShell>} shell */
export function create(shell, query) {
  const checkpoints = readCheckpoints(shell.manifest);
  const reference = readReference(shell.manifest, checkpoints);
  const lengths = episodeLengths(checkpoints, reference);
  // The palette of an earlier visit, unless the address gives one.
  const view = { ...shell.manifest.view, palette: get(shell.settings).palette };
  const manifest = { ...shell.manifest, ...trainingData(shell.manifest), view, checkpoints, reference, lengths };
  const selection = createSelection(codec.fromQuery(manifest, query), (now, patch) => changed(manifest, now, patch));
  keepPalette(selection, shell.settings);
  const tone = derived([shell.theme, selection], ([theme, { palette }]) => toneOf(theme, palette));
  const clock = clockOver(selection, lengths);
  const plays = createPlays(manifest, shell.chunks, selection);
  const shown = createShown(manifest, shell.chunks);
  const every = Math.max(1, ...checkpoints.map(({ saliency }) => saliency?.every ?? 1));
  const marked = derived([selection, plays], ([now, all]) => brushedSteps(manifest, now, all));
  const page = {
    ...shell,
    manifest,
    codec,
    selection,
    clock,
    player: createPlayer(clock, Number(manifest.view?.video_speed) || 12),
    plays,
    shown,
    /** Steps from one map to the next. */
    every,
    /** The steps that brushes hold; null where all are shown alike. */
    marked,
    brush: derived(marked, (marks) => marks ?? EMPTY),
    tone,
    /** Of each checkpoint the color of its letter, null where it is not chosen. */
    colors: derived([selection, tone], ([{ chosen }, now]) =>
      checkpoints.map((_, index) => (chosen.includes(index) ? checkpointColor(chosen.indexOf(index), now) : null)),
    ),
    explanations: [...EXPLANATIONS, ...shell.manifest.explanations],
    feature: readable(null),
    names: { subscribe: readable({ given: {} }).subscribe, add() {} },
    hasPanel: (name) => name !== "find" && (name !== "reference" || reference !== null),
    facts: [manifest.env_name, `${checkpoints.length} checkpoints`],
  };
  page.views = checkpoints.map((checkpoint) => checkpointView(page, checkpoint));
  /** The same of the recording whose episode all checkpoints were shown. */
  page.referenceView = reference && checkpointView(page, reference.checkpoint);
  page.toDisagreement = () => toDisagreement(page);
  page.actions = actionsOf(page);
  return page;
}

/** Time in steps of the longest play. */
function clockOver(selection, lengths) {
  const timeOf = ({ episode, step, visible }) => ({ episode, frame: step, window: visible ?? lengths[episode] });
  return clockOf({
    lengths,
    subscribe: derived(selection, timeOf).subscribe,
    read: () => timeOf(selection.now),
    change: (patch, kind) => selection.change(selectionPatch(patch), kind),
  });
}

const selectionPatch = ({ episode, frame, window }) => ({
  ...(episode !== undefined && { episode }),
  ...(frame !== undefined && { step: frame }),
  ...(window !== undefined && { visible: window }),
});

/** The page as components of the kit know it, for one checkpoint alone: with its clock, frames and actions. */
function checkpointView(page, checkpoint) {
  const { lengths, unit } = page.manifest;
  const manifest = { ...checkpoint.manifest, lengths, unit };
  const own = (episode) => manifest.trajectories[episode]?.steps ?? 1;
  return {
    ...page,
    manifest,
    checkpoint,
    clock: alignedClock(page.clock, page.selection, { steps: own, checkpoint: checkpoint.agent }),
    frames: heldFrames(createFrames(manifest, page.chunks, 16 * 2 ** 20), own),
    /** A frame in words. */
    describe: ({ trajectory, frame }) =>
      frame < own(trajectory) ? `${checkpoint.name} · step ${frame + 1}` : `${checkpoint.name} · ended`,
  };
}

function toDisagreement({ manifest, selection, shown }) {
  const { divergence } = get(shown);
  if (!divergence) return;
  const { sync, episode } = selection.now;
  const step = stepOf(sync, argmax(divergence), manifest.reference.steps, manifest.lengths[episode]);
  selection.change({ step });
}

function actionsOf(page) {
  const { selection, clock, every } = page;
  const turn = (list, now) => list[(list.indexOf(now) + 1) % list.length];
  return {
    map: (key) => clock.toFrame(clock.now.frame + (key === "," ? -every : every)),
    episode: (key) => selection.change({ episode: selection.now.episode + (key === "[" ? -1 : 1), step: 0 }),
    overlay: () => selection.change({ overlay: turn(OVERLAYS, selection.now.overlay) }),
    path: () => selection.change({ path: !selection.now.path }),
    sync: () => selection.change({ sync: turn(["step", "progress"], selection.now.sync) }),
    disagreement: page.toDisagreement,
  };
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
export const scripting = (page) => ({
  /** A checkpoint's shares of the regions: for each output a list for each region; null while maps are not loaded. */
  shares(index) {
    const { maps } = get(page.plays)[index];
    const { method, regions } = page.selection.now;
    const centers = methodNamed(page.manifest.checkpoints[index], method)?.centers;
    if (!maps || !centers) return null;
    const lists = mapOutputs(maps).map((id) => [id, sharesOf(maps, id, centers, regions).map((s) => [...s])]);
    return { steps: [...maps.arrays.steps.data], ...Object.fromEntries(lists) };
  },
  /** The map of a checkpoint that is shown, by number, or -1. */
  mapShown: (index) => mapIndex(get(page.plays)[index].maps, page.views[index].clock.now.frame),
});
