// What a reader selects on the page of what an agent remembers: `?episode=2&step=41&target=value`.
import { PALETTE } from "../../kit/page/fields.js";
import { orderOf } from "./directions.js";
import { holds, pathsOf, windowAt } from "./windows.js";

/**
 * @typedef {object} Selection
 * @property {number} trajectory the episode that is shown
 * @property {number} frame
 * @property {number} window index of the window that is shown, or -1: it stays while it holds the frame
 * @property {number[]} components directions that are chosen: the first one is looked at, all have a track
 * @property {number} behaviour that is looked at
 * @property {"all" | "decision" | "episode" | "behaviour" | "direction"} choice which windows the chooser lists
 * @property {"any" | "top" | "middle" | "bottom"} end of the direction, for that choice
 * @property {"any" | "now"} when "now": only windows that hold the step that is shown
 * @property {string} search text that a window's description must contain
 * @property {string} target whose causes are shown: "value", "action", "direction-3"
 * @property {"memory" | "whole" | "world"} path that causes take: "world" is what the whole adds to memory alone
 * @property {"path" | "paths" | "frame"} scale what has full opacity: the largest value of the window, on this path or on
 *   any, or of each of its frames
 * @property {string} band which labels of steps have a track: "behaviour" or "cluster"
 * @property {string} tab the panel that is open below
 * @property {number} opacity of maps over frames
 * @property {number | null} visible steps that tracks show at a time; null: all
 * @property {"standard" | "safe"} palette of outputs; "safe": for color-blind readers
 * @property {Object<string, Object<number, string>>} names that the reader gave to directions (data/names.js)
 */

export const TABS = ["components", "behaviours", "causes", "remembering", "interventions", "simulator"];

const windowsOf = ({ memory }) => memory.windows?.windows ?? [];
const behaviourCount = ({ memory: { states } }) => states?.behaviours?.count ?? 0;

/** Of a decision that depends on memory the action is explained first, of other steps the first target. */
function firstTarget({ memory: { windows } }) {
  const ids = (windows?.targets ?? []).map(({ id }) => id);
  const decides = windows?.windows[0]?.why.some(({ kind }) => kind === "decision");
  return decides && ids.includes("action") ? "action" : (ids[0] ?? "");
}

/** The window that is shown; addresses have its last step where the step that is shown does not lead to it. */
const WINDOW = {
  initial: ({ manifest }) => (windowsOf(manifest).length ? 0 : -1),
  clamp(index, { manifest, selection: { trajectory, frame } }) {
    const windows = windowsOf(manifest);
    const stays = windows[index] && holds(windows[index], trajectory, frame);
    return stays ? index : windowAt(windows, trajectory, frame);
  },
  write(query, index, { manifest, selection: { trajectory, frame } }) {
    const windows = windowsOf(manifest);
    if (windows[index] && windowAt(windows, trajectory, frame) !== index)
      query.set("explained", windows[index].frame + 1);
  },
  read: (query, { manifest, selection: { trajectory, frame } }) =>
    windowsOf(manifest).findIndex(
      (window) => window.frame === Number(query.get("explained")) - 1 && holds(window, trajectory, frame),
    ),
};

/** @type {import("../../kit/page/fields.js").Field[]} */
export const FIELDS = [
  {
    name: "trajectory",
    key: "episode",
    type: "index",
    count: ({ trajectories }) => trajectories.length,
    default: (manifest) => windowsOf(manifest)[0]?.trajectory ?? 0,
    always: true,
    place: true,
  },
  {
    name: "frame",
    key: "step",
    type: "index",
    count: ({ trajectories }, { trajectory }) => trajectories[trajectory].steps,
    default: (manifest) => windowsOf(manifest)[0]?.frame ?? 0,
    always: true,
  },
  { name: "window", type: WINDOW },
  {
    name: "components",
    type: "indices",
    count: ({ memory: { states } }) => states?.directions.length ?? 0,
    least: 1,
    most: 6,
    default: ({ memory: { states } }) => orderOf(states?.directions ?? []).slice(0, 1),
  },
  { name: "behaviour", type: "index", count: behaviourCount },
  { name: "choice", type: "choice", options: ["all", "decision", "episode", "behaviour", "direction"] },
  { name: "end", type: "choice", options: ["any", "top", "middle", "bottom"] },
  { name: "when", type: "choice", options: ["any", "now"] },
  { name: "search", type: "text" },
  {
    name: "target",
    type: "choice",
    options: ({ memory: { windows } }) => (windows?.targets ?? []).map(({ id }) => id),
    default: firstTarget,
  },
  { name: "path", type: "choice", options: pathsOf },
  { name: "scale", type: "choice", options: ["path", "paths", "frame"] },
  {
    name: "band",
    type: "choice",
    options: ["behaviour", "cluster"],
    default: (manifest) => (behaviourCount(manifest) ? "behaviour" : "cluster"),
  },
  { name: "tab", type: "choice", options: TABS, place: true },
  { name: "opacity", type: "number", least: 0, most: 1, default: 0.8 },
  {
    name: "visible",
    type: "number",
    whole: true,
    least: 16,
    most: ({ trajectories }) => Math.max(16, ...trajectories.map(({ steps }) => steps)),
    default: null,
  },
  PALETTE,
  { name: "names", key: "name", type: "names", of: ({ named }) => named, stays: true },
];

export const notes = (_, { trajectory, frame }) => [{ place: `episode ${trajectory + 1}, step ${frame + 1}` }];
