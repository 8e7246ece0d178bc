// Windows of steps, whose last step is explained through time (docs/page-format.md, "Section windows").
import { memoized } from "../../data/cache.js";

/** The paths of influence that can be shown. */
export function pathsOf({ memory: { windows } }) {
  const paths = windows?.paths ?? ["memory"];
  return paths.includes("whole") ? [...paths, "world"] : paths;
}

/** Go to the explained step of a window. */
export function showWindow({ manifest, selection }, window) {
  const { trajectory, frame } = manifest.memory.windows.windows[window];
  selection.change({ window, trajectory, frame });
}

/** Whether a window holds a step. */
export const holds = (window, trajectory, frame) =>
  window.trajectory === trajectory && window.first <= frame && frame <= window.frame;

const distance = (window, frame) => Math.abs(window.frame - frame);

/** The index of the window that holds a step, of several the one that explains the nearest step; -1 if none does. */
export const windowAt = (windows, trajectory, frame) =>
  best(windows, frame, (window) => holds(window, trajectory, frame));

/** The index of the episode's window whose explained step is nearest; -1 if the episode has none. */
export const nearestWindow = (windows, trajectory, frame) =>
  best(windows, frame, (window) => window.trajectory === trajectory);

function best(windows, frame, fits) {
  let found = -1;
  windows.forEach((window, i) => {
    if (fits(window) && (found < 0 || distance(window, frame) < distance(windows[found], frame))) found = i;
  });
  return found;
}

/**
 * What causes a target along a window.
 *
 * @typedef {object} Explanation
 * @property {Float32Array} values (n, h, w): what a change of each place of each frame adds to the target
 * @property {number[]} shape n, h, w
 * @property {number} largest magnitude of the values before the explained step: its own frame, which memory does not
 *   carry, would dwarf them
 * @property {Float32Array | null} components (n, D): share of the target that flows through each direction before each step
 *
 * @param {object} arrays of the window's chunk
 * @param {{targets: string[]}} window
 * @param {string} target
 * @param {"memory" | "whole" | "world"} path "world": what the whole adds to memory
 * @returns {Explanation | null} null where the window does not explain it
 */
export function explanation(arrays, window, target, path) {
  const index = window.targets.indexOf(target);
  return index < 0 ? null : explained(arrays, `${path} ${index}`);
}

const explained = memoized((arrays, key) => {
  const [path, index] = key.split(" ");
  if (path !== "world") return onPath(arrays, path, Number(index));
  const [memory, whole] = ["memory", "whole"].map((name) => onPath(arrays, name, Number(index)));
  if (!memory || !whole) return null;
  const values = whole.values.map((value, i) => value - memory.values[i]);
  const components = whole.components?.map((value, i) => value - memory.components[i]) ?? null;
  return { ...whole, values, largest: largestBefore(values, whole.shape), components };
});

function onPath(arrays, path, index) {
  const [codes, scales, components] = [path, `${path}.scale`, `${path}.components`].map((name) => arrays[name]);
  if (!codes) return null;
  const [, ...shape] = codes.shape;
  const unit = scales.data[index] / 127;
  const values = Float32Array.from(part(codes, index), (code) => code * unit);
  return {
    values,
    shape,
    largest: largestBefore(values, shape),
    components: components ? part(components, index).slice() : null,
  };
}

/** The part of an array (n, ...) with an index. */
export function part({ data, shape }, index) {
  const size = data.length / shape[0];
  return data.subarray(index * size, (index + 1) * size);
}

const largestOf = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** Of all steps but the last; of all where those have no values. */
const largestBefore = (values, [, height, width]) => largestOf(values.slice(0, -height * width)) || largestOf(values);

/** How much each step adds: sums of what raises and of what lowers the target. @returns {{raises: number, lowers: number}[]} */
export const strengths = memoized(({ values, shape: [steps, height, width] }) =>
  Array.from({ length: steps }, (_, s) => {
    const step = values.subarray(s * height * width, (s + 1) * height * width);
    const sum = (sign) => step.reduce((total, value) => total + Math.max(0, sign * value), 0);
    return { raises: sum(1), lowers: sum(-1) };
  }),
);

/** One step's grid as a map of saliency. @returns {import("../../data/saliency.js").SaliencyMap} */
export const gridAt = memoized(({ values, shape: [, height, width] }, s) => {
  const data = values.subarray(s * height * width, (s + 1) * height * width);
  return { data, height, width, scale: largestOf(data) };
});

/** What flows through each direction: summed over the window, or before one of its steps. @returns {number[] | null} (D) */
export function causes({ components, shape: [steps] }, step = null) {
  if (!components) return null;
  const count = components.length / steps;
  const rows = step === null ? Array.from({ length: steps }, (_, s) => s) : [step];
  return Array.from({ length: count }, (_, d) => rows.reduce((sum, s) => sum + components[s * count + d], 0));
}

const EVENTS = {
  asked: () => "requested",
  decision: () => "depends on memory",
  reward: () => "reward",
  entropy: () => "high entropy",
  end: (cause) => (cause ? `last step (${cause})` : "last step"),
};
const ENDS = { top: "high", middle: "middle", bottom: "low" };

/** The ends of a direction that the chooser offers. */
export const END_CHOICES = [["any", "high, middle or low"], ...Object.entries(ENDS)];

/** Why a window was chosen, in words. @param {any} window @param {(direction: number) => string} label */
export const reasons = ({ why = [], ended = "" }, label) =>
  why
    .filter(({ kind }) => kind !== "episode")
    .map((one) =>
      one.kind === "direction"
        ? `${label(one.direction)} ${ENDS[one.end] ?? ""}`
        : (EVENTS[one.kind]?.(ended) ?? `behavior ${one.behaviour + 1}`),
    )
    .join(", ");

/** Whether a decision depends on steps before its window, by the memory matrix. */
export const isCut = ({ begins, first }) => Number.isFinite(begins) && begins < first;

/** What `frames` of a window are compared with, in words: those of another episode at the same steps, or the mean frame. */
export const comparedWith = ({ partner }, frames = "frames") =>
  partner === undefined ? "the mean frame" : `the ${frames} of episode ${partner + 1}`;

/** A window's place in words. */
export const placeOf = ({ trajectory, frame }) => `episode ${trajectory + 1}, step ${frame + 1}`;

/**
 * The indices of the windows that the chooser lists.
 *
 * @param {object[]} windows
 * @param {import("./fields.js").Selection} selection
 * @param {(direction: number) => string} label
 */
export function listed(windows, selection, label) {
  const { choice, end, when, search, components, behaviour, trajectory, frame } = selection;
  const isWanted = {
    all: () => true,
    decision: ({ why }) => why.some(({ kind }) => kind === "decision"),
    episode: (window) => window.trajectory === trajectory,
    behaviour: ({ why }) => why.some((one) => one.kind === "behaviour" && one.behaviour === behaviour),
    direction: ({ why }) =>
      why.some(
        (one) => one.kind === "direction" && one.direction === components[0] && (end === "any" || one.end === end),
      ),
  }[choice];
  const words = search
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  return windows.flatMap((window, i) => {
    if (!isWanted(window) || (when === "now" && !holds(window, trajectory, frame))) return [];
    const parts = `${placeOf(window)} ${reasons(window, label)}`.toLowerCase().split(/[\s,]+/);
    // A number is one of the text's numbers; other words may be parts of words.
    const found = (word) => parts.some((part) => (/^\d+$/.test(word) ? part === word : part.includes(word)));
    return words.every(found) ? [i] : [];
  });
}

/** Where the middles of a grid's cells are, as shares of the frame, of which the observation shows a region. */
export const gridCenters = ([, height, width], [top, left, bottom, right] = [0, 0, 1, 1]) => ({
  rows: middles(height, top, bottom),
  columns: middles(width, left, right),
});

const middles = (count, from, to) => Array.from({ length: count }, (_, i) => from + ((i + 0.5) / count) * (to - from));
