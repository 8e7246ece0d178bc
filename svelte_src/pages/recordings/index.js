// The page of recorded episodes, of any number of runs: in TensorBoard, of a server of its own, or as files.
import { derived, get, readable, writable } from "svelte/store";
import { nextMatch } from "../../data/find.js";
import { createFrames } from "../../data/frames.js";
import { SAFE_HUES } from "../../kit/image/colors.js";
import { createSelection, keepPalette } from "../../kit/shell/page.js";
import { alignedClock, clockOf, createPlayer, heldFrames } from "../../kit/time/clock.js";
import * as codec from "./address.js";
import { asMatches } from "./find.js";
import * as find from "./Find.svelte";
import { followSource } from "./live.js";
import { createBrush, createFound } from "./marks.js";
import { createEntries, createPlays } from "./plays.js";
import * as play from "./Play.svelte";
import { episodeName, knownSteps, newest, readTable, rowOf } from "./runs.js";
import { changed, goTo, longestOf } from "./selection.js";
import * as trust from "./Trust.svelte";

export { filesOf } from "./export.js";

/** Panels of this page in place of others of the same name. */
export const panels = { find, play, trust };

/** Kinds of sections that this page's own panels draw. */
export const sections = ["episodes", "trajectories", "saliency", "state_map"];

/** Panels by slot; `aside` opens at the side. */
export const layout = {
  navigation: ["episodes"],
  main: ["play", "player", "states"],
  legend: [],
  aside: ["find", "notes", "trust", "export", "help"],
};

/** Width of the slot `navigation`. */
export const side = "clamp(300px, 32vw, 440px)";

export const labels = { navigation: "Episodes", skip: "Skip to the player" };

export const aliases = { timeline: "player", state_map: "states" };

export const keys = [
  { keys: [",", "."], action: "jump", text: "several steps back or forward", letter: true },
  { keys: ["[", "]"], action: "episode", text: "previous or next episode of the table", letter: true },
  { keys: ["g", "G"], action: "match", text: "next or (Shift) previous step that was found", letter: true },
  { keys: ["b"], action: "range", text: "begin a range of steps here; again: end it; then: clear it", letter: true },
  { keys: ["o"], action: "overlay", text: "frame with saliency maps, frame alone, maps alone", letter: true },
  { keys: ["s"], action: "sync", text: "align episodes by step or by progress", letter: true },
];

/** Stops of the tour: panel, title, text. */
export const tour = [
  ["episodes", "Episodes", "Every recorded episode. Click one to see it; tick several to compare them side by side."],
  ["player", "Player", "The episode's frames and numbers. Click a track to go there, drag over it to choose a range."],
  ["states", "States", "Each point is a step. Circle some to mark them on the tracks. Press ? at any time for help."],
];

const EXPLANATIONS = [
  {
    title: "How to read saliency maps",
    text: "A saliency map shows where a change of the image would change an output most: the policy (blue) or the value (red). It says how strongly the output depends on a place, not whether what is there is good or bad, nor whether the network is right to look there.",
  },
];

/** @param {ReturnType<import("../../kit/shell/page.js").createShell>} shell */
export function create(shell, query) {
  const { source, chunks, images } = shell;
  /** Always the same object, so that components may keep it; `revision` tells that it has changed. */
  const table = { ...readTable(shell.manifest), palette: get(shell.settings).palette };
  const revision = writable(0);
  const manifest = { ...shell.manifest, table };
  const selection = createSelection(codec.fromQuery(manifest, query), (now, patch) => changed(table, now, patch));
  keepPalette(selection, shell.settings);
  const entryOf = createEntries(source);
  const plays = createPlays({ table, chunks, images, selection, entryOf });
  const clock = clockOver(selection, plays, table);
  const page = {
    ...shell,
    manifest,
    table,
    revision,
    codec,
    selection,
    clock,
    player: createPlayer(clock, Number(manifest.view?.video_speed) || 12),
    plays,
    color: ({ number }) => SAFE_HUES[number % SAFE_HUES.length],
    /** The rows of the table as it shows them. */
    order: writable([]),
    explanations: [...EXPLANATIONS, ...shell.manifest.explanations],
    feature: readable(null),
    names: { subscribe: readable({ given: {} }).subscribe, add() {} },
    hasPanel: () => true,
    facts: [table.runs.length === 1 ? table.runs[0].manifest.env_name : `${table.runs.length} runs`],
  };
  page.found = createFound(selection, table, plays);
  page.brush = createBrush(selection, table, plays, page.found);
  page.go = (run, trajectory, frame) => {
    const row = rowOf(table, run, trajectory);
    if (row) goTo(page, row, frame);
  };
  Object.assign(page, viewsOf(page, entryOf));
  page.actions = actionsOf(page);
  page.server = followSource(source, table, (next) => {
    Object.assign(table, next);
    if (!selection.now.chosen.length && table.rows.length) selection.change({ chosen: [newest(table.rows).key] });
    plays.refresh();
    revision.update((count) => count + 1);
  });
  page.stop = page.server.stop;
  return page;
}

/** Time in steps of the longest of the chosen episodes. */
function clockOver(selection, plays, table) {
  const steps = () => longestOf(table, selection.now.chosen);
  const timeOf = ({ step, visible }) => ({ episode: 0, frame: step, window: visible ?? steps() });
  return clockOf({
    lengths: {
      get 0() {
        return steps();
      },
    },
    subscribe: derived([selection, plays], ([now]) => timeOf(now)).subscribe,
    read: () => timeOf(selection.now),
    change: ({ frame, window }, kind) =>
      selection.change({ ...(frame !== undefined && { step: frame }), ...(window && { visible: window }) }, kind),
  });
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
          lengths: [],
          subscribe: derived([page.selection, page.plays], read).subscribe,
          read,
          change: ({ episode = read().episode, frame }) => page.go(run, episode, frame ?? 0),
        });
        return { ...scopeOf(run), clock };
      }),
  };
}

const viewsTime = (page, row) => page.episodeView(row).clock.now;

const turn = (list, now) => list[(list.indexOf(now) + 1) % list.length];

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
    overlay: () => selection.change({ shows: turn(["both", "frame", "saliency"], selection.now.shows) }),
    sync: () => selection.change({ sync: turn(["step", "progress"], selection.now.sync) }),
  };
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
export const scripting = (page) => ({
  /** The keys of the episodes in the table. */
  episodes: () => page.table.rows.map(({ key }) => key),
});
