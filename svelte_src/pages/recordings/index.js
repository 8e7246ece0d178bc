// The page of recorded episodes, of any number of runs: in TensorBoard, of a server of its own, or as files.
import { derived, get, writable } from "svelte/store";
import { nextMatch } from "../../data/find.js";
import { createFrames } from "../../data/frames.js";
import { clockOver, definePage, useClock } from "../../kit/page/page.js";
import { alignedClock, clockOf, heldFrames } from "../../kit/time/clock.js";
import { goTo, longestOf } from "./chosen.js";
import { combine, FIELDS, notes } from "./fields.js";
import { asMatches } from "./find.js";
import { followSource } from "./live.js";
import { createBrush, createFound } from "./marks.js";
import Page from "./Page.svelte";
import * as panels from "./panels.js";
import { createEntries, createPlays } from "./plays.js";
import { createShown, whenAsked } from "./shown.js";
import { episodeName, knownSteps, newest, readTable, rowOf, runColors } from "./runs.js";
import { filesOf } from "./export.js";

const EXPLANATIONS = [
  {
    title: "How to read saliency maps",
    text: "A saliency map shows where a change of the image would change an output most: the policy (blue) or the value (red). It shows how strongly the output depends on a position. It does not show whether what is there is good or bad, or whether the network is right to look there.",
  },
];

export const recordings = definePage({
  fields: FIELDS,
  combine,
  notes,
  /** The table is always the same object, so that components may keep it; `revision` tells that it has changed. */
  read: (manifest) => ({ table: readTable(manifest) }),
  component: Page,
  panels,
  sections: ["episodes", "trajectories", "saliency", "state_map", "updates"],
  layout: {
    navigation: ["episodes"],
    main: ["play", "player", "analyses", "states", "returns", "updates"],
    legend: [],
    aside: ["find", "notes", "trust", "export", "help"],
  },
  side: "clamp(300px, 32vw, 440px)",
  labels: { navigation: "Episodes", skip: "Skip to the player" },
  aliases: { timeline: "player", state_map: "states" },
  keys: [
    { keys: [",", "."], action: "jump", text: "several steps back or forward" },
    { keys: ["[", "]"], action: "episode", text: "previous or next episode of the table" },
    { keys: ["g", "G"], action: "match", text: "next or (Shift) previous matching step" },
    {
      keys: ["b"],
      action: "range",
      text: "begin a range of steps here; press again to end it, and once more to clear it",
    },
    { keys: ["o"], field: "shows", text: "frame with saliency maps, frame alone, maps alone" },
    { keys: ["s"], field: "sync", text: "align episodes by step or by progress" },
  ],
  tour: [
    ["episodes", "Episodes", "Every recorded episode. Click one to see it; tick several to compare them side by side."],
    [
      "player",
      "Player",
      "The episode's frames and numbers. Click a track to go there, drag over it to choose a range.",
    ],
    ["states", "States", "Each point is a step. Circle some to mark them on the tracks. Press ? at any time for help."],
  ],
  explanations: EXPLANATIONS,
  facts: ({ table: { runs } }) => [runs.length === 1 ? runs[0].manifest.env_name : `${runs.length} runs`],
  filesOf,
  extend,
  scripting: (page) => ({
    /** The keys of the episodes in the table. */
    episodes: () => page.table.rows.map(({ key }) => key),
  }),
});

/** Images in a chunk of a run's fixed observations. */
const PROBED_SEGMENT = 64;

/** Time in steps of the longest of the chosen episodes. */
const TIME = { frame: "step", window: "visible" };
const steps = ({ table }, { chosen }) => longestOf(table, chosen);

/** @param {import("../../types").Page} page */
function extend(page) {
  const { manifest, source, chunks, images, selection } = page;
  const { table } = manifest;
  const entryOf = createEntries(source);
  const frameOf = (row) => {
    const { clock, frames } = page.episodeView(row);
    return frames.get(row.trajectory, clock.now.frame);
  };
  const plays = createPlays({ table, chunks, images, selection, entryOf, frameOf });
  const found = createFound(selection, table, plays);
  const revision = writable(0);
  useClock(page, clockOver(page, TIME, steps, { others: [plays] }));
  Object.assign(page, {
    table,
    revision,
    plays,
    /** The color of each run. */
    runColors: derived([revision, derived(selection, ({ group }) => group), page.theme], ([, group, theme]) =>
      runColors(table, group, theme),
    ),
    /** The rows of the table as it shows them. */
    order: writable([]),
    found,
    brush: createBrush(selection, table, plays, found),
    go(run, trajectory, frame) {
      const row = rowOf(table, run, trajectory);
      if (row) goTo(page, row, frame);
    },
  });
  Object.assign(page, viewsOf(page, entryOf), { actions: actionsOf(page) });
  const first = { table, selection, plays, entryOf, frameOf };
  Object.assign(page, { asked: whenAsked(first), shown: createShown(first) });
  page.server = followSource(source, table, (next) => {
    Object.assign(table, next);
    if (!selection.now.chosen.length && table.rows.length) selection.change({ chosen: [newest(table.rows).key] });
    plays.refresh();
    revision.update((count) => count + 1);
  });
  page.stop = page.server.stop;
}

/** The page as components of the kit know it, for one episode or one run: with its clock, frames and actions. */
function viewsOf(page, entryOf) {
  const frames = new Map();
  const views = new Map();

  /** Frames of a run's episodes, whose entries are fetched first. */
  function framesOf(run) {
    if (!frames.has(run)) {
      const own = createFrames(run.manifest, page.chunks, 32 * 2 ** 20);
      const held = heldFrames(own, (trajectory) => run.manifest.trajectories[trajectory]?.steps || 1);
      const get = (trajectory, ...more) => entryOf(run, trajectory).then(() => held.get(trajectory, ...more));
      frames.set(run, { ...held, get });
    }
    return frames.get(run);
  }

  const viewOf = (key, make) => {
    if (!views.has(key)) views.set(key, make());
    return views.get(key);
  };

  const scopeOf = (run) => ({
    ...page,
    manifest: run.manifest,
    run,
    frames: framesOf(run),
    /** A frame in words. */
    describe: ({ trajectory, frame }) => {
      const row = rowOf(page.table, run, trajectory);
      return `${row ? episodeName(row) : run.name} · step ${frame + 1}`;
    },
  });

  const elsewhere =
    (run) =>
    ({ episode, frame }) =>
      page.go(run, episode, frame);

  return {
    episodeView: (row) =>
      viewOf(row.key, () => {
        const { of: run, trajectory } = row;
        const own = { steps: () => knownSteps(row), checkpoint: run.id, episode: trajectory, leave: elsewhere(run) };
        const chooseRange = (first, last) => {
          const { clock, selection } = views.get(row.key);
          const [a, b] = [first, last].map((frame) => clock.toStep(frame));
          selection.change({ range: [a, b] }, "range");
        };
        return { ...scopeOf(run), clock: alignedClock(page.clock, page.selection, own), chooseRange };
      }),
    /** The page with a run's fixed observations, on which its checkpoints are compared, as the only trajectory. */
    probeView(run) {
      const { observation } = run.manifest;
      const { frames, steps } = run.updates;
      const manifest = {
        ...run.manifest,
        segment: PROBED_SEGMENT,
        trajectories: [{ steps: steps.length, frames }],
        observation: { ...observation, frame_height: observation.height, frame_width: observation.width, region: null },
      };
      return { ...scopeOf(run), manifest, frames: createFrames(manifest, page.chunks, 8 * 2 ** 20) };
    },
    /** All episodes of a run; its clock is that of the first one that is shown. */
    runView: (run) =>
      viewOf(run, () => {
        const read = () => {
          const row = page.table.byKey.get(
            page.selection.now.chosen.find((key) => page.table.byKey.get(key)?.of === run),
          );
          return row ? viewsTime(page, row) : { episode: -1, frame: 0, window: 1 };
        };
        const clock = clockOf({
          checkpoint: run.id,
          steps: () => 1,
          subscribe: derived([page.selection, page.plays], read).subscribe,
          read,
          change: ({ episode = read().episode, frame }) => page.go(run, episode, frame ?? 0),
        });
        return { ...scopeOf(run), clock };
      }),
  };
}

const viewsTime = (page, row) => page.episodeView(row).clock.now;

function actionsOf(page) {
  const { selection, clock } = page;
  return {
    jump: (key) => clock.toFrame(clock.now.frame + (key === "," ? -1 : 1) * selection.now.jump),
    episode(key) {
      const rows = get(page.order);
      const at = rows.findIndex((row) => row.key === selection.now.chosen[0]);
      const next = rows[at + (key === "[" ? -1 : 1)];
      if (next) selection.change({ chosen: [next.key, ...selection.now.chosen.slice(1)] });
    },
    match(key) {
      const here = { trajectory: 0, frame: clock.now.frame };
      const next = nextMatch(asMatches(page, get(page.found) ?? []), here, key === "g" ? 1 : -1);
      if (next) clock.toFrame(next.frame);
    },
    range() {
      const { range, step } = selection.now;
      const next = !range ? [step, step] : range[0] === range[1] && range[0] !== step ? [range[0], step] : null;
      selection.change({ range: next });
    },
  };
}
