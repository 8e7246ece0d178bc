// The selection: one value that every panel shows and the address holds.
import { methodsOf } from "./checkpoints.js";

/**
 * @typedef {{rows: number, columns: number, boxes: number[][], names: Object<number, string>}} Regions a grid over the maps,
 *   or boxes [top, left, bottom, right] as shares of the frame, where there are any
 * @typedef {object} Selection
 * @property {number[]} chosen checkpoints A, B, ...
 * @property {number} episode
 * @property {number} step
 * @property {"step" | "progress"} sync how episodes of different lengths are aligned
 * @property {string} method of the saliency maps
 * @property {"policy" | "value" | "both" | "none"} overlay
 * @property {number} opacity
 * @property {"frame" | "trajectory" | "all"} scale what has full opacity: the largest value of the map, of the episode, or the 99th
 *   percentile of all
 * @property {"policy" | "value"} output whose shares the regions' heat map and axes show
 * @property {"standard" | "safe"} palette of outputs and checkpoints; "safe": for color-blind readers
 * @property {Regions} regions
 * @property {number} region the one that is looked at
 * @property {number} threshold share of a region's largest share of the value's saliency at which a moment is marked
 * @property {number} sure probability above which the policy is sure
 * @property {number} window maps of a rolling mean
 * @property {boolean} grey whether frames are without colors
 * @property {boolean} path whether frames show the path of the map's peak
 * @property {Object<string, number[]>} brushes [low, high] by axis; that of the axis `step` is the range of steps
 * @property {string[]} axes in their order; others follow
 * @property {number | null} visible steps that timelines show at a time; null: all
 */

const REGION = { rows: 2, columns: 2, boxes: [], names: {} };
export const MOST_REGIONS = 64;
const CHOICES = {
  sync: ["step", "progress"],
  overlay: ["both", "policy", "value", "none"],
  scale: ["trajectory", "frame", "all"],
  output: ["value", "policy"],
};
const PALETTES = ["standard", "safe"];
const SHARES = { opacity: 0.8, threshold: 0.5, sure: 0.7 };

/** @param {{checkpoints: object[], lengths: number[]}} training @returns {Selection} */
export function initialSelection({ checkpoints, view }) {
  return {
    chosen: [...new Set([0, checkpoints.length - 1])],
    episode: 0,
    step: 0,
    method: methodsOf(checkpoints)[0]?.name ?? "",
    ...Object.fromEntries(Object.entries(CHOICES).map(([key, [first]]) => [key, first])),
    ...SHARES,
    palette: view?.palette ?? PALETTES[0],
    regions: REGION,
    region: 0,
    window: 10,
    path: false,
    grey: false,
    brushes: {},
    axes: [],
    visible: null,
  };
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, Number.isFinite(value) ? value : low));
const whole = (value, low, high) => Math.round(clamp(value, low, high));

/** A selection with a change made, everything in range. @returns {Selection} */
export function changed(training, selection, patch) {
  const { checkpoints, lengths } = training;
  const next = { ...selection, ...patch };
  const initial = initialSelection(training);
  if ("chosen" in patch) {
    const known = [...new Set(next.chosen)].filter((index) => checkpoints[index]);
    next.chosen = known.length ? known : selection.chosen;
  }
  next.episode = whole(next.episode, 0, lengths.length - 1);
  next.step = whole(next.step, 0, lengths[next.episode] - 1);
  if (!methodsOf(checkpoints).some(({ name }) => name === next.method)) next.method = initial.method;
  for (const key of Object.keys(CHOICES)) if (!CHOICES[key].includes(next[key])) next[key] = initial[key];
  if (!PALETTES.includes(next.palette)) next.palette = initial.palette;
  for (const key of Object.keys(SHARES)) next[key] = clamp(next[key], 0, 1);
  next.window = whole(next.window, 1, 100);
  if (next.visible !== null) next.visible = whole(next.visible, 16, Math.max(16, ...lengths));
  if ("regions" in patch) next.regions = cleanRegions(next.regions);
  next.region = whole(next.region, 0, regionCount(next.regions) - 1);
  if ("brushes" in patch) {
    const known = Object.entries(next.brushes).filter(([, range]) => range?.every(Number.isFinite));
    next.brushes = Object.fromEntries(known.map(([axis, [a, b]]) => [axis, [Math.min(a, b), Math.max(a, b)]]));
  }
  return next;
}

export const regionCount = ({ rows, columns, boxes }) => boxes.length || rows * columns;

function cleanRegions({ rows, columns, boxes, names }) {
  const most = Math.floor(Math.sqrt(MOST_REGIONS));
  const inside = boxes
    .filter((box) => box.length === 4 && box.every(Number.isFinite))
    .map((box) => box.map((at) => clamp(at, 0, 1)))
    .map(([top, left, bottom, right]) => [
      Math.min(top, bottom),
      Math.min(left, right),
      Math.max(top, bottom),
      Math.max(left, right),
    ]);
  return {
    rows: whole(rows, 1, most),
    columns: whole(columns, 1, most),
    boxes: inside.slice(0, MOST_REGIONS),
    names: Object.fromEntries(Object.entries(names).filter(([, name]) => name)),
  };
}

/** Choose a checkpoint as A; `more`: add it, or remove it if it is chosen. */
export function choose({ selection }, index, more) {
  const { chosen } = selection.now;
  if (!more) return selection.change({ chosen: [index, ...chosen.slice(1).filter((other) => other !== index)] });
  return selection.change({
    chosen: chosen.includes(index) ? chosen.filter((other) => other !== index) : [...chosen, index],
  });
}

/** Brush an axis; null: no longer. */
export function brush({ selection }, axis, range) {
  const others = Object.entries(selection.now.brushes).filter(([name]) => name !== axis);
  const brushes = Object.fromEntries(range ? [...others, [axis, range]] : others);
  selection.change({ brushes }, `brush ${axis}`);
}
