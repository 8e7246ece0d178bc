// What a reader selects on the page of a training: `?checkpoints=1.10&episode=1&step=120`.
import { PALETTE } from "../../kit/page/fields.js";
import { UPDATE_FIELDS } from "../../kit/updates/updates.js";
import { BRUSHES } from "./brushes.js";
import { methodsOf } from "./checkpoints.js";
import { REGIONS, regionCount } from "./regions.js";

/**
 * @typedef {object} Selection
 * @property {number[]} chosen checkpoints A, B, ...
 * @property {number} episode
 * @property {number} step
 * @property {"step" | "progress"} sync how episodes of different lengths are aligned
 * @property {string} method of the saliency maps
 * @property {"policy" | "value" | "both" | "none"} overlay
 * @property {"frame" | "trajectory" | "all"} scale what has full opacity: the largest value of the map, of the episode, or the 99th
 *   percentile of all
 * @property {"policy" | "value"} output whose shares the regions' heat map and axes show
 * @property {number} opacity
 * @property {number} threshold share of a region's largest share of the value's saliency at which a moment is marked
 * @property {number} sure probability above which the policy is sure
 * @property {number} window maps of a rolling mean
 * @property {number | null} visible steps that timelines show at a time; null: all
 * @property {"standard" | "safe"} palette of outputs and checkpoints; "safe": for color-blind readers
 * @property {boolean} path whether frames show the path of the map's peak
 * @property {boolean} grey whether frames are without colors
 * @property {import("./regions.js").Regions} regions
 * @property {number} region the one that is looked at
 * @property {Object<string, number[]>} brushes [low, high] by axis; that of the axis `step` is the range of steps
 * @property {string[]} axes in their order; others follow
 * @property {number | null} update of which it is shown what it changed, counted from 1; null: the one that changed most
 * @property {string} measure of the change
 */

/** @type {import("../../kit/page/fields.js").Field[]} */
export const FIELDS = [
  {
    name: "chosen",
    key: "checkpoints",
    type: "indices",
    count: ({ checkpoints }) => checkpoints.length,
    least: 1,
    default: ({ checkpoints }) => {
      const done = checkpoints.filter((checkpoint) => checkpoint.done).map(({ index }) => index);
      return [...new Set([done[0], done.at(-1)])];
    },
    always: true,
    place: true,
  },
  { name: "episode", type: "index", count: ({ lengths }) => lengths.length, always: true, place: true },
  { name: "step", type: "index", count: ({ lengths }, { episode }) => lengths[episode], always: true },
  { name: "sync", type: "choice", options: ["step", "progress"] },
  { name: "method", type: "choice", options: ({ checkpoints }) => methodsOf(checkpoints).map(({ name }) => name) },
  { name: "overlay", type: "choice", options: ["both", "policy", "value", "none"] },
  { name: "scale", type: "choice", options: ["all", "trajectory", "frame"] },
  { name: "output", type: "choice", options: ["value", "policy"] },
  { name: "opacity", type: "number", least: 0, most: 1, default: 0.8 },
  { name: "threshold", type: "number", least: 0, most: 1, default: 0.5 },
  { name: "sure", type: "number", least: 0, most: 1, default: 0.7 },
  { name: "window", type: "number", whole: true, least: 1, most: 100, default: 10 },
  {
    name: "visible",
    type: "number",
    whole: true,
    least: 16,
    most: ({ lengths }) => Math.max(16, ...lengths),
    default: null,
  },
  PALETTE,
  { name: "path", type: "flag" },
  { name: "grey", type: "flag" },
  { name: "regions", type: REGIONS },
  { name: "region", type: "index", count: (_, { regions }) => regionCount(regions) },
  { name: "brushes", type: BRUSHES, key: "brush" },
  { name: "axes", type: "texts", separator: "~" },
  ...UPDATE_FIELDS,
];

export function notes({ checkpoints }, { chosen, episode, step }) {
  const names = chosen.map((index) => checkpoints[index].name).join(", ");
  return [{ place: `${names}, episode ${episode + 1}, step ${step + 1}` }];
}
