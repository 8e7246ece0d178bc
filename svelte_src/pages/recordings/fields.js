// What a reader selects on the page of recordings: `?episode=exp1~50&step=41&range=10-60`.
import { KINDS, SEARCH } from "../../data/find.js";
import { PALETTE, TYPES } from "../../kit/page/fields.js";
import { UPDATE_FIELDS } from "../../kit/updates/updates.js";
import { longestOf } from "./chosen.js";
import { searchable } from "./find.js";
import { curvesOf } from "./returns.js";
import { episodeName, methodsOf, newest } from "./runs.js";

/**
 * @typedef {object} Selection
 * @property {string[]} chosen keys of the episodes that are shown, the first one also on the map
 * @property {number} step
 * @property {"step" | "progress"} sync how episodes of different lengths are aligned
 * @property {"both" | "frame" | "saliency"} shows
 * @property {string} method of the saliency maps
 * @property {"both" | "policy" | "value"} overlay
 * @property {"trajectory" | "frame" | "all"} scale what has full opacity
 * @property {number} opacity
 * @property {number} jump steps that are taken at once
 * @property {number | null} visible steps that tracks show at a time; null: all
 * @property {"standard" | "safe"} palette of the outputs; "safe": for color-blind readers
 * @property {string} runs regular expression of the names of runs that are shown
 * @property {string} group regular expression by which runs have one color
 * @property {string} curve what is shown of the episodes over training
 * @property {[number, number] | null} range of steps that was chosen on a track
 * @property {import("../../kit/time/brush.js").Brush | null} marks steps that were chosen on the state map; not in the address
 * @property {import("../../data/find.js").Search | null} find conditions of steps that are marked, in place of range and marks
 * @property {string[]} tracks that are shown
 * @property {number | null} update of which it is shown what it changed, counted from 1; null: the one that changed most
 * @property {string} measure of the change
 */

const EPISODES = {
  ...TYPES.texts,
  many: true,
  format: (keys) => keys,
  parse: (keys) => keys,
};

/** @type {import("../../kit/page/fields.js").Field[]} */
export const FIELDS = [
  {
    name: "chosen",
    key: "episode",
    type: EPISODES,
    isPossible:
      ({ table }) =>
      (key) =>
        table.byKey.has(key),
    least: 1,
    most: 8,
    default: ({ table }) => (newest(table.rows) ? [newest(table.rows).key] : []),
    always: true,
    place: true,
  },
  { name: "step", type: "index", count: ({ table }, { chosen }) => longestOf(table, chosen), always: true },
  { name: "sync", type: "choice", options: ["step", "progress"] },
  { name: "shows", type: "choice", options: ["both", "frame", "saliency"] },
  { name: "method", type: "choice", options: ({ table }) => methodsOf(table.runs).map(({ name }) => name) },
  { name: "overlay", type: "choice", options: ["both", "policy", "value"] },
  { name: "scale", type: "choice", options: ["trajectory", "frame", "all"] },
  { name: "opacity", type: "number", least: 0, most: 1, default: 0.8 },
  { name: "jump", type: "number", whole: true, least: 1, most: 1000, default: 10 },
  {
    name: "visible",
    type: "number",
    whole: true,
    least: 16,
    most: ({ table }, { chosen }) => Math.max(16, longestOf(table, chosen)),
    default: null,
  },
  PALETTE,
  { name: "range", type: "range", count: ({ table }, { chosen }) => longestOf(table, chosen) },
  { name: "runs", type: "text" },
  { name: "group", type: "text" },
  { name: "curve", type: "choice", options: ({ table }) => curvesOf(table).map(({ key }) => key) },
  { name: "marks", type: {}, default: null, key: null },
  { name: "find", type: SEARCH, of: ({ table }) => searchable(table), conditions: KINDS.recordings },
  { name: "tracks", type: "texts", default: () => ["film", "return", "value", "advantage", "policy"] },
  ...UPDATE_FIELDS,
];

/** Steps are marked by a search, by a range or on the map, of which each replaces the others. */
export function combine(next, patch) {
  if (patch.find) next.range = next.marks = null;
  else if (patch.range || patch.marks) next.find = null;
  if ("range" in patch && next.range) next.marks = null;
}

export function notes({ table: { byKey } }, { chosen, step }) {
  const names = chosen.filter((key) => byKey.has(key)).map((key) => episodeName(byKey.get(key)));
  return [{ place: `${names.join("; ")}, step ${step + 1}` }];
}
