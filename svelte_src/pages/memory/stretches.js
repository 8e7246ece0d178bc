// Stretches: short windows of episodes whose last step is explained through time (docs/page-format.md, "Section stretches").
import { memoized } from "../../data/cache.js";

/** The paths of influence that can be shown. */
export function pathsOf({ memory: { stretches } }) {
  const paths = stretches?.paths ?? ["memory"];
  return paths.includes("whole") ? [...paths, "world"] : paths;
}

/** Go to the explained step of a stretch. */
export function showStretch({ manifest, selection }, stretch) {
  const { trajectory, frame } = manifest.memory.stretches.stretches[stretch];
  selection.change({ stretch, trajectory, frame });
}

/** Whether a stretch's window holds a step. */
export const holds = (stretch, trajectory, frame) =>
  stretch.trajectory === trajectory && stretch.first <= frame && frame <= stretch.frame;

const distance = (stretch, frame) => Math.abs(stretch.frame - frame);

/** The index of the stretch whose window holds a step, of several the one that explains the nearest step; -1 if none does. */
export const stretchAt = (stretches, trajectory, frame) =>
  best(stretches, frame, (stretch) => holds(stretch, trajectory, frame));

/** The index of the episode's stretch whose explained step is nearest; -1 if the episode has none. */
export const nearestStretch = (stretches, trajectory, frame) =>
  best(stretches, frame, (stretch) => stretch.trajectory === trajectory);

function best(stretches, frame, fits) {
  let found = -1;
  stretches.forEach((stretch, i) => {
    if (fits(stretch) && (found < 0 || distance(stretch, frame) < distance(stretches[found], frame))) found = i;
  });
  return found;
}

/**
 * What causes a target along a stretch.
 *
 * @typedef {object} Explanation
 * @property {Float32Array} values (n, h, w): what a change of each place of each frame adds to the target
 * @property {number[]} shape n, h, w
 * @property {number} largest magnitude of the values before the explained step: its own frame, which memory does not
 *   carry, would dwarf them
 * @property {Float32Array | null} components (n, D): share of the target that flows through each direction before each step
 *
 * @param {object} arrays of the stretch's chunk
 * @param {{targets: string[]}} stretch
 * @param {string} target
 * @param {"memory" | "whole" | "world"} path "world": what the whole adds to memory
 * @returns {Explanation | null} null where the stretch does not explain it
 */
export function explanation(arrays, stretch, target, path) {
  const index = stretch.targets.indexOf(target);
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

/** What flows through each direction: summed over the stretch, or before one of its steps. @returns {number[] | null} (D) */
export function causes({ components, shape: [steps] }, step = null) {
  if (!components) return null;
  const count = components.length / steps;
  const rows = step === null ? Array.from({ length: steps }, (_, s) => s) : [step];
  return Array.from({ length: count }, (_, d) => rows.reduce((sum, s) => sum + components[s * count + d], 0));
}

const EVENTS = {
  asked: () => "asked for",
  decision: () => "depends on memory",
  reward: () => "reward",
  entropy: () => "high entropy",
  end: (cause) => (cause ? `last step (${cause})` : "last step"),
};
const ENDS = { top: "high", middle: "middle", bottom: "low" };

/** The ends of a direction that the chooser offers. */
export const END_CHOICES = [["any", "high, middle or low"], ...Object.entries(ENDS)];

/** Why a stretch was chosen, in words. @param {any} stretch @param {(direction: number) => string} label */
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

/** What `frames` of a stretch are compared with, in words: those of another episode at the same steps, or the mean frame. */
export const comparedWith = ({ partner }, frames = "frames") =>
  partner === undefined ? "the mean frame" : `the ${frames} of episode ${partner + 1}`;

/** A stretch's place in words. */
export const placeOf = ({ trajectory, frame }) => `episode ${trajectory + 1}, step ${frame + 1}`;

/**
 * The indices of the stretches that the chooser lists.
 *
 * @param {object[]} stretches
 * @param {import("./fields.js").Selection} selection
 * @param {(direction: number) => string} label
 */
export function listed(stretches, selection, label) {
  const { choice, end, when, search, components, behaviour, trajectory, frame } = selection;
  const isWanted = {
    all: () => true,
    decision: ({ why }) => why.some(({ kind }) => kind === "decision"),
    episode: (stretch) => stretch.trajectory === trajectory,
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
  return stretches.flatMap((stretch, i) => {
    if (!isWanted(stretch) || (when === "now" && !holds(stretch, trajectory, frame))) return [];
    const parts = `${placeOf(stretch)} ${reasons(stretch, label)}`.toLowerCase().split(/[\s,]+/);
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
