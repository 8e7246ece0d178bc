// Numbers along an episode that the page computes.
import { memoized } from "../../data/cache.js";
import { rangeOf } from "../../data/series.js";

/** The sum of rewards up to and with each step. */
export const cumulative = memoized((rewards) => {
  let sum = 0;
  return Float64Array.from(rewards, (reward) => (sum += reward));
});

/** The undiscounted sum of rewards from each step to the end of its episode. */
export const returnsToCome = memoized((rewards, firsts) => {
  const returns = new Float64Array(rewards.length);
  for (let t = rewards.length - 1, sum = 0; t >= 0; t -= 1) {
    sum = rewards[t] + (firsts?.[t + 1] ? 0 : sum);
    returns[t] = sum;
  }
  return returns;
});

/** The entropy of each step's distribution, in nats. @param {{data: ArrayLike<number>, shape: number[]}} probabilities (T, A) */
export const entropies = memoized(({ data, shape: [steps, count] }) =>
  Float64Array.from({ length: steps }, (_, t) => entropyOf(data.subarray(t * count, (t + 1) * count))),
);

export const entropyOf = (shares) => shares.reduce((sum, p) => sum + entropyTerm(p), 0);

/** What a probability adds to an entropy. */
export const entropyTerm = (p) => (p > 0 ? -p * Math.log(p) : 0);

/** The largest probability of each step. */
export const largest = memoized(({ data, shape: [steps, count] }) =>
  Float64Array.from({ length: steps }, (_, t) => Math.max(...data.subarray(t * count, (t + 1) * count))),
);

/** The probability of each step's action. @param {ArrayLike<number>} actions (T) */
export const ofActions = memoized(({ data, shape: [steps, count] }, actions) =>
  Float64Array.from({ length: Math.min(steps, actions.length) }, (_, t) => data[t * count + actions[t]]),
);

/** The value of each step: the largest action value where there is no value. */
export const valuesOf = memoized((series) => {
  if (series.values) return series.values.data;
  return series.logits ? largest(series.logits) : null;
});

/** The step of the largest number, the first one of equals. */
export const argmax = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

/** The range of several lists together. */
export const commonRange = (lists) => rangeOf(lists.filter((list) => list?.length).flatMap(extremes));

const extremes = memoized((list) => {
  let [low, high] = [Infinity, -Infinity];
  for (const value of list) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [];
});
