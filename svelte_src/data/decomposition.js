// The decomposition of an output: the parts that it is the sum of, from the chunk of totals of a layer (docs/page-format.md).
import { memoized } from "./cache.js";

/**
 * @typedef {object} Decomposition
 * Numbers of every step: baseline + sum of features + residual + memory + completeness error = output.
 * @property {Float64Array} baseline the output at the layer's baseline, with the initial state
 * @property {Float64Array[]} features one for each feature
 * @property {Float64Array} residual what the features leave out
 * @property {Float64Array} memory what the recurrent state changes at the baseline; zeros without memory
 * @property {Float64Array} completeness_error what integrated gradients miss
 * @property {Float64Array} output
 * @property {Float64Array} [error] the part of the completeness error that integrated gradients miss, where it has others
 * @property {Float64Array} [start] of a difference of two decompositions: that of their baselines
 * @property {Decomposition} [whole] of such a difference: the decomposition itself
 */

/**
 * The decomposition of one output, or null where the page does not have it: the input, or an output without attribution.
 *
 * @param {Object<string, {data: ArrayLike<number>, shape: number[]}>} arrays of the chunk of totals
 * @param {string} output its id
 * @returns {Decomposition | null}
 */
export const outputDecomposition = memoized((arrays, output) => {
  const [totals, sums, memory] = ["totals", "gap", "memory"].map((name) => arrays[`${name}.${output}`]);
  if (!totals || !sums) return null;
  const [steps, parts] = totals.shape;
  const series = (at) => Float64Array.from({ length: steps }, (_, t) => at(t));
  const net = (t, k) => totals.data[(t * parts + k) * 2] + totals.data[(t * parts + k) * 2 + 1];
  const stateEffect = (t) => memory?.data[t] ?? 0;
  return {
    baseline: series((t) => sums.data[t * 3 + 2] - sums.data[t * 3 + 1] - stateEffect(t)),
    features: Array.from({ length: parts - 1 }, (_, k) => series((t) => net(t, k))),
    residual: series((t) => net(t, parts - 1)),
    memory: series(stateEffect),
    completeness_error: series((t) => sums.data[t * 3 + 1] - sums.data[t * 3]),
    output: series((t) => sums.data[t * 3 + 2]),
  };
});

/**
 * The difference of the decompositions of every step and of another step, or of the mean of the step's episode.
 *
 * It adds up to the difference of the outputs; `start` is that of the outputs at the baselines of both. `error` is the larger
 * completeness error of both, and `whole` the decomposition itself.
 *
 * @param {Decomposition} decomposition
 * @param {number | "mean"} instead a step, or the mean over the episode
 * @param {ArrayLike<number>} firsts at which steps episodes begin
 * @returns {Decomposition & {start: Float64Array, whole: Decomposition}}
 */
export function differenceFrom(decomposition, instead, firsts) {
  const episodes = Array.from(firsts, (first, t) => Number(first && t > 0)).map(running());
  const reference = (values) => (instead === "mean" ? meansOf(values, episodes) : values.map(() => values[instead]));
  const difference = (values) => {
    const other = reference(values);
    return values.map((value, t) => value - other[t]);
  };
  const errors = (decomposition.error ?? decomposition.completeness_error).map(Math.abs);
  const [other, single] = [reference(errors), (name) => difference(decomposition[name])];
  return {
    baseline: reference(decomposition.output),
    start: single("baseline"),
    features: decomposition.features.map(difference),
    residual: single("residual"),
    memory: single("memory"),
    completeness_error: single("completeness_error"),
    output: decomposition.output,
    error: errors.map((error, t) => Math.max(error, other[t])),
    whole: decomposition,
  };
}

/** Sums of the numbers so far, for `map`. */
function running() {
  let sum = 0;
  return (value) => (sum += value);
}

/** The mean of each step's episode. */
function meansOf(values, episodes) {
  const sums = new Map();
  values.forEach((value, t) => {
    const [sum, count] = sums.get(episodes[t]) ?? [0, 0];
    sums.set(episodes[t], [sum + value, count + 1]);
  });
  return values.map((_, t) => sums.get(episodes[t])[0] / sums.get(episodes[t])[1]);
}

/**
 * The decomposition of a linear combination of outputs, such as one logit less another, or a group's sum of logits.
 *
 * @param {Decomposition[]} decompositions of the same layer and trajectory
 * @param {(number | ArrayLike<number>)[]} weights one for each decomposition: a number, or one for each step, such as the
 *   policy's probabilities
 * @returns {Decomposition}
 */
export function combineDecompositions(decompositions, weights) {
  const steps = decompositions[0].output.length;
  const weightAt = (i, t) => (typeof weights[i] === "number" ? weights[i] : weights[i][t]);
  const combine = (pick) => {
    const columns = decompositions.map(pick);
    return Float64Array.from({ length: steps }, (_, t) =>
      columns.reduce((sum, column, i) => sum + weightAt(i, t) * column[t], 0),
    );
  };
  const single = (name) => combine((one) => one[name]);
  return {
    baseline: single("baseline"),
    features: decompositions[0].features.map((_, k) => combine((one) => one.features[k])),
    residual: single("residual"),
    memory: single("memory"),
    completeness_error: single("completeness_error"),
    output: single("output"),
  };
}
