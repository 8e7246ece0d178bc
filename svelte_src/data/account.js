// The account of an output: the parts that it is the sum of, from the chunk of totals of a layer (docs/page-format.md).
import { memoized } from "./cache.js";

/**
 * @typedef {object} Account
 * Numbers of every step: baseline + sum of features + rest + memory + gap = output.
 * @property {Float64Array} baseline the output at the layer's baseline, with the initial state
 * @property {Float64Array[]} features one for each feature
 * @property {Float64Array} rest what the features leave out
 * @property {Float64Array} memory what the recurrent state changes at the baseline; zeros without memory
 * @property {Float64Array} gap what integrated gradients miss
 * @property {Float64Array} output
 * @property {Float64Array} [error] the part of the gap that integrated gradients miss, where the gap has others
 * @property {Float64Array} [start] of a difference of two decompositions: that of their baselines
 * @property {Account} [whole] of such a difference: the decomposition itself
 */

/**
 * The account of one output, or null where the page does not have it: the input, or an output without attribution.
 *
 * @param {Object<string, {data: ArrayLike<number>, shape: number[]}>} arrays of the chunk of totals
 * @param {string} output its id
 * @returns {Account | null}
 */
export const outputAccount = memoized((arrays, output) => {
  const [totals, gaps, memory] = ["totals", "gap", "memory"].map((name) => arrays[`${name}.${output}`]);
  if (!totals || !gaps) return null;
  const [steps, parts] = totals.shape;
  const series = (at) => Float64Array.from({ length: steps }, (_, t) => at(t));
  const net = (t, k) => totals.data[(t * parts + k) * 2] + totals.data[(t * parts + k) * 2 + 1];
  const stateEffect = (t) => memory?.data[t] ?? 0;
  return {
    baseline: series((t) => gaps.data[t * 3 + 2] - gaps.data[t * 3 + 1] - stateEffect(t)),
    features: Array.from({ length: parts - 1 }, (_, k) => series((t) => net(t, k))),
    rest: series((t) => net(t, parts - 1)),
    memory: series(stateEffect),
    gap: series((t) => gaps.data[t * 3 + 1] - gaps.data[t * 3]),
    output: series((t) => gaps.data[t * 3 + 2]),
  };
});

/**
 * The difference of the decompositions of every step and of another step, or of the mean of the step's episode.
 *
 * It adds up to the difference of the outputs; `start` is that of the outputs at the baselines of both. `error` is the larger
 * completeness error of both, and `whole` the account itself.
 *
 * @param {Account} account
 * @param {number | "mean"} instead a step, or the mean over the episode
 * @param {ArrayLike<number>} firsts at which steps episodes begin
 * @returns {Account & {start: Float64Array, whole: Account}}
 */
export function differenceFrom(account, instead, firsts) {
  const episodes = Array.from(firsts, (first, t) => Number(first && t > 0)).map(running());
  const reference = (values) => (instead === "mean" ? meansOf(values, episodes) : values.map(() => values[instead]));
  const difference = (values) => {
    const other = reference(values);
    return values.map((value, t) => value - other[t]);
  };
  const errors = (account.error ?? account.gap).map(Math.abs);
  const [other, single] = [reference(errors), (name) => difference(account[name])];
  return {
    baseline: reference(account.output),
    start: single("baseline"),
    features: account.features.map(difference),
    rest: single("rest"),
    memory: single("memory"),
    gap: single("gap"),
    output: account.output,
    error: errors.map((error, t) => Math.max(error, other[t])),
    whole: account,
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
 * The account of a linear combination of outputs, such as one logit less another, or a group's sum of logits.
 *
 * @param {Account[]} accounts of the same layer and trajectory
 * @param {(number | ArrayLike<number>)[]} weights one for each account: a number, or one for each step, such as the
 *   policy's probabilities
 * @returns {Account}
 */
export function combineAccounts(accounts, weights) {
  const steps = accounts[0].output.length;
  const weightAt = (i, t) => (typeof weights[i] === "number" ? weights[i] : weights[i][t]);
  const combine = (pick) => {
    const columns = accounts.map(pick);
    return Float64Array.from({ length: steps }, (_, t) =>
      columns.reduce((sum, column, i) => sum + weightAt(i, t) * column[t], 0),
    );
  };
  const single = (name) => combine((one) => one[name]);
  return {
    baseline: single("baseline"),
    features: accounts[0].features.map((_, k) => combine((one) => one.features[k])),
    rest: single("rest"),
    memory: single("memory"),
    gap: single("gap"),
    output: single("output"),
  };
}
