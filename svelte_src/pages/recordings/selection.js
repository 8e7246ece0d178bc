// The selection: one value that every panel shows and the address holds.
import { frameAt } from "../../kit/time/align.js";
import { knownSteps, methodsOf, newest } from "./runs.js";

/**
 * @typedef {object} Selection
 * @property {string[]} chosen keys of the episodes that are shown, the first one also on the map
 * @property {number} step
 * @property {"step" | "progress"} sync how episodes of different lengths are aligned
 * @property {"both" | "frame" | "saliency"} shows
 * @property {string} method of the saliency maps
 * @property {"both" | "policy" | "value"} overlay
 * @property {number} opacity
 * @property {"trajectory" | "frame" | "all"} scale what has full opacity
 * @property {"standard" | "safe"} palette of the outputs; "safe": for color-blind readers
 * @property {[number, number] | null} range of steps that was chosen on a track
 * @property {import("../../kit/time/brush.js").Brush | null} marks steps that were chosen on the state map; not in the address
 * @property {import("../../data/find.js").Search | null} find conditions of steps that are marked, in place of range and marks
 * @property {string[]} tracks that are shown
 * @property {number} jump steps that are taken at once
 * @property {number | null} visible steps that tracks show at a time; null: all
 */

const CHOICES = {
  sync: ["step", "progress"],
  shows: ["both", "frame", "saliency"],
  overlay: ["both", "policy", "value"],
  scale: ["trajectory", "frame", "all"],
  palette: ["standard", "safe"],
};
/** Episodes that are shown side by side at most. */
const MOST = 8;
export const DEFAULT_TRACKS = ["film", "return", "value", "advantage", "policy"];

/** @returns {Selection} */
export function initialSelection({ rows, runs, palette = CHOICES.palette[0] }) {
  const first = newest(rows);
  return {
    chosen: first ? [first.key] : [],
    step: 0,
    ...Object.fromEntries(Object.entries(CHOICES).map(([key, [initial]]) => [key, initial])),
    palette,
    method: methodsOf(runs)[0]?.name ?? "",
    opacity: 0.8,
    range: null,
    marks: null,
    find: null,
    tracks: DEFAULT_TRACKS,
    jump: 10,
    visible: null,
  };
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, Number.isFinite(value) ? value : low));
const whole = (value, low, high) => Math.round(clamp(value, low, high));

/** Steps of the longest of the chosen episodes: the page's time runs so far. */
export const longestOf = ({ byKey }, chosen) =>
  Math.max(1, ...chosen.map((key) => (byKey.has(key) ? knownSteps(byKey.get(key)) : 1)));

/** A selection with a change made, everything in range. @returns {Selection} */
export function changed(table, selection, patch) {
  const next = { ...selection, ...patch };
  const methods = methodsOf(table.runs);
  if ("chosen" in patch) {
    const known = [...new Set(next.chosen)].filter((key) => table.byKey.has(key)).slice(0, MOST);
    next.chosen = known.length ? known : selection.chosen;
  }
  if (patch.find) next.range = next.marks = null;
  else if (patch.range || patch.marks) next.find = null;
  const last = longestOf(table, next.chosen) - 1;
  next.step = whole(next.step, 0, last);
  for (const [key, known] of Object.entries(CHOICES)) if (!known.includes(next[key])) [next[key]] = known;
  if (!methods.some(({ name }) => name === next.method)) next.method = methods[0]?.name ?? "";
  next.opacity = clamp(next.opacity, 0, 1);
  next.jump = whole(next.jump, 1, 1000);
  if (next.visible !== null) next.visible = whole(next.visible, 16, Math.max(16, last + 1));
  if (next.range) {
    const [first, end] = next.range.map((step) => whole(step, 0, last)).sort((a, b) => a - b);
    const same = selection.range?.[0] === first && selection.range[1] === end;
    next.range = same ? selection.range : [first, end];
    if ("range" in patch) next.marks = null;
  }
  return next;
}

/** Tick an episode, or take its tick away; the last one stays. */
export function toggle({ selection }, key) {
  const { chosen } = selection.now;
  selection.change({ chosen: chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key] });
}

/** Go to a frame of an episode: it takes the place of the first one if it is not shown. */
export function goTo({ selection, table }, row, frame) {
  const { chosen, sync } = selection.now;
  const shown = chosen.includes(row.key) ? chosen : [row.key, ...chosen.slice(1)];
  const [own, longest] = [knownSteps(row), longestOf(table, shown)];
  const step = sync === "step" || own <= 1 ? frame : Math.round((frame * (longest - 1)) / (own - 1));
  selection.change({ chosen: shown, step });
}

/** The chosen range in each of the chosen episodes. @returns {{checkpoint: string, episode: number, first: number, last: number}[]} */
export function rangesOf(table, { range, chosen, sync }) {
  if (!range) return [];
  const longest = longestOf(table, chosen);
  return chosen.flatMap((key) => {
    const row = table.byKey.get(key);
    if (!row) return [];
    const steps = knownSteps(row);
    if (sync === "step" && range[0] >= steps) return [];
    const [first, last] = range.map((step) => frameAt(sync, step, steps, longest));
    return [{ checkpoint: row.of.id, episode: row.trajectory, first, last }];
  });
}
