// The page of an agent's training: checkpoints side by side, with one selection.
import { derived, get } from "svelte/store";
import { createFrames } from "../../data/frames.js";
import { mapIndex, mapOutputs } from "../../data/saliency.js";
import { toneOf } from "../../kit/image/colors.js";
import { definePage } from "../../kit/page/page.js";
import { stepOf } from "../../kit/time/align.js";
import { EMPTY } from "../../kit/time/brush.js";
import { alignedClock, heldFrames } from "../../kit/time/clock.js";
import { argmax } from "../../kit/time/numbers.js";
import { brushedSteps } from "./axes.js";
import {
  checkpointColor,
  episodeLengths,
  methodNamed,
  problemWith,
  readCheckpoints,
  readReference,
  trainingData,
  unfinished,
} from "./checkpoints.js";
import { createPlays, createShown } from "./data.js";
import { FIELDS, notes } from "./fields.js";
import { sharesOf } from "./maps.js";
import * as panels from "./panels.js";
import { filesOf } from "./export.js";

const EXPLANATIONS = [
  {
    title: "How to read saliency maps",
    text: "A saliency map shows where a change of the image would change an output most: the policy (blue) or the value (red). It shows how strongly the output depends on a position. It does not show whether what is there is good or bad, or whether the network is right to look there. Total saliency also grows with the size of an output, so compare the shapes and shares of maps before their sizes.",
  },
  {
    title: "Own and shared episodes",
    text: "In most panels each checkpoint plays its own episode, so that images differ as well as networks. In “One episode, every checkpoint”, all checkpoints see the same images.",
  },
];

/** The checkpoints, the episode that all were shown, and the steps of each episode of the page's time. */
function read(manifest) {
  const checkpoints = readCheckpoints(manifest);
  const reference = readReference(manifest, checkpoints);
  const updates = manifest.sections.find(({ kind }) => kind === "updates")?.data ?? null;
  return {
    ...trainingData(manifest),
    checkpoints,
    reference,
    updates,
    lengths: episodeLengths(checkpoints, reference),
  };
}

export const training = definePage({
  fields: FIELDS,
  notes,
  time: { episode: "episode", frame: "step", window: "visible" },
  steps: ({ lengths }, _, episode) => lengths[episode],
  read,
  panels,
  sections: ["trajectories", "saliency", "training", "updates", "checks"],
  layout: {
    navigation: ["checkpoints"],
    main: ["play", "curve", "steps", "returns", "regions", "reference", "updates", "numbers"],
    legend: ["films"],
    aside: ["notes", "trust", "export", "help"],
  },
  legendSize: "clamp(400px, 38vw, 640px)",
  labels: { navigation: "Checkpoints", skip: "Skip to the player", legend: "Episodes side by side" },
  aliases: { training: "curve", comparison: "films" },
  keys: [
    { keys: [",", "."], action: "map", text: "previous or next step that has a saliency map" },
    { keys: ["[", "]"], field: "episode", and: { step: 0 }, text: "previous or next episode" },
    { keys: ["o"], field: "overlay", text: "maps of both outputs, of the policy, of the value, or none" },
    { keys: ["p"], field: "path", text: "path of the map's peak" },
    { keys: ["s"], field: "sync", text: "align episodes by step or by progress" },
    { keys: ["d"], action: "disagreement", text: "step at which the checkpoints disagree most" },
  ],
  tour: [
    [
      "curve",
      "Training",
      "How the return grew, with a marker for each checkpoint. Click one to choose it as A; hold Shift to add it.",
    ],
    ["films", "Side by side", "The chosen checkpoints at the same moment of their episodes, and where they look."],
    ["regions", "Regions", "How much of a map falls into each region of the image, over time. Draw your own boxes."],
    ["steps", "Steps", "Every step is a line. Drag along any axis: all panels highlight the brushed steps."],
    [
      "reference",
      "One episode, every checkpoint",
      "One episode, shown to every checkpoint, so that only the network differs.",
    ],
    [
      "updates",
      "What did this update change?",
      "Each checkpoint is compared with the one before it: click a bar to see the steps that changed most. Press ? at any time for help.",
    ],
  ],
  explanations: EXPLANATIONS,
  problemWith,
  unfinished,
  facts: ({ env_name: name, checkpoints }) => [name, `${checkpoints.length} checkpoints`],
  filesOf,
  extend,
  scripting,
});

/** @param {import("../../types").Page} page */
function extend(page) {
  const { manifest, chunks, selection, clock } = page;
  const { checkpoints, reference, updates } = manifest;
  const tone = derived([page.theme, selection], ([theme, { palette }]) => toneOf(theme, palette));
  const plays = createPlays(manifest, chunks, selection);
  const every = Math.max(1, ...checkpoints.map(({ saliency }) => saliency?.every ?? 1));
  const marked = derived([selection, plays], ([now, all]) => brushedSteps(manifest, now, all));
  Object.assign(page, {
    plays,
    shown: createShown(manifest, chunks),
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
    hasPanel: (name) =>
      name !== "find" &&
      (name !== "reference" || reference !== null) &&
      (name !== "updates" || (reference !== null && updates !== null)),
    toDisagreement: () => toDisagreement(page),
    actions: {
      map: (key) => clock.toFrame(clock.now.frame + (key === "," ? -every : every)),
      disagreement: () => toDisagreement(page),
    },
  });
  page.views = checkpoints.map((checkpoint) => checkpointView(page, checkpoint));
  /** The same of the recording whose episode all checkpoints were shown. */
  page.referenceView = reference && checkpointView(page, reference.checkpoint);
}

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

/** @param {import("../../types").Page} page */
function toDisagreement({ manifest, selection, shown }) {
  const { divergence } = get(shown);
  if (!divergence) return;
  const { sync, episode } = selection.now;
  const step = stepOf(sync, argmax(divergence), manifest.reference.steps, manifest.lengths[episode]);
  selection.change({ step });
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
function scripting(page) {
  return {
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
  };
}
