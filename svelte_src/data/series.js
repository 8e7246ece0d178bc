// Numbers along a trajectory: which there are, their range, and how they are drawn at any zoom.
import { memoized } from "./cache.js";
import { questionSeries } from "./questions.js";

/** The numbers of one output at every step, or null where the page does not have them. @returns {Float32Array | null} */
export const outputSeries = memoized((arrays, output) => {
  if (output.kind === "value") return arrays.values?.data ?? null;
  if (output.kind === "action") return arrays.logits ? column(arrays.logits, output.action) : null;
  if (output.kind === "question") return questionSeries(arrays, output);
  if (output.kind === "group") return arrays.groups ? column(arrays.groups, output.group) : null;
  if (output.kind === "greedy") return arrays.logits ? rowMaxima(arrays.logits) : null;
  return null;
});

/** Column k of a (T, n) array. */
export function column({ data, shape }, k) {
  const [steps, width] = shape;
  const out = new Float32Array(steps);
  for (let t = 0; t < steps; t += 1) out[t] = data[t * width + k];
  return out;
}

/** One row of an array (K, ...), as a list. */
export function rowOf(array, k) {
  if (!array) return null;
  const length = array.data.length / array.shape[0];
  return Array.from(array.data.subarray(k * length, (k + 1) * length));
}

/** Column k of a (T, n) array. */
export const columnOf = ({ data, shape: [length, columns] }, k) =>
  Float32Array.from({ length }, (_, t) => data[t * columns + k]);

/** The sum of each row of a (T, n) array. */
export function rowSums({ data, shape: [steps, width] }) {
  const out = new Float32Array(steps);
  for (let i = 0; i < data.length; i += 1) out[Math.floor(i / width)] += data[i];
  return out;
}

function rowMaxima({ data, shape }) {
  const [steps, width] = shape;
  return Float32Array.from({ length: steps }, (_, t) => Math.max(...data.subarray(t * width, (t + 1) * width)));
}

/** Smallest and largest number, as [low, high] that differ. */
export const rangeOf = memoized((values) => {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!Number.isFinite(low)) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
});

/** First and last step of the episode that a step is in. */
export function episodeAround(firsts, step) {
  let first = step;
  while (first > 0 && !firsts[first]) first -= 1;
  let last = step;
  while (last + 1 < firsts.length && !firsts[last + 1]) last += 1;
  return { first, last };
}

/**
 * Polylines of values[from..to], one an episode, with at most about two points a pixel.
 *
 * @param {ArrayLike<number>} values
 * @param {ArrayLike<number>} firsts lines are broken before these steps
 * @param {typeof pushMean} push what adds the points of several steps: their extremes, or their mean
 * @returns {number[][]} each a flat list step, value, step, value, ...
 */
export function polylines(values, firsts, from, to, pixelsPerStep, push = pushExtremes) {
  const start = Math.max(0, Math.floor(from));
  const end = Math.min(values.length - 1, Math.ceil(to));
  const stride = Math.max(1, Math.floor(1 / pixelsPerStep));
  const lines = [];
  let line = [];
  for (let t = start; t <= end;) {
    if (t > start && firsts[t]) {
      lines.push(line);
      line = [];
    }
    if (stride === 1) {
      if (!Number.isNaN(values[t])) line.push(t, values[t]);
      t += 1;
    } else {
      t = push(line, values, firsts, t, Math.min(end, t + stride - 1));
    }
  }
  lines.push(line);
  return lines.filter((points) => points.length);
}

/** Add the extremes of a bucket that ends at the latest before a new episode; return the step after it. */
export function pushExtremes(line, values, firsts, from, to) {
  let low = -1;
  let high = -1;
  let t = from;
  for (; t <= to && (t === from || !firsts[t]); t += 1) {
    if (Number.isNaN(values[t])) continue;
    if (low < 0 || values[t] < values[low]) low = t;
    if (high < 0 || values[t] > values[high]) high = t;
  }
  if (low < 0) return t;
  const [a, b] = low < high ? [low, high] : [high, low];
  line.push(a, values[a]);
  if (b !== a) line.push(b, values[b]);
  return t;
}

/** Add the mean of a bucket, in place of its extremes. */
export function pushMean(line, values, firsts, from, to) {
  let [sum, count, t] = [0, 0, from];
  for (; t <= to && (t === from || !firsts[t]); t += 1) {
    if (Number.isNaN(values[t])) continue;
    sum += values[t];
    count += 1;
  }
  if (count) line.push((from + t - 1) / 2, sum / count);
  return t;
}

/** Cumulated probabilities of a step: A + 1 edges from 0 to 1. */
export function stackedEdges(probabilities, width, step) {
  const edges = [0];
  for (let k = 0; k < width; k += 1) edges.push(edges[k] + probabilities[step * width + k]);
  const total = edges[width] || 1;
  return edges.map((edge) => edge / total);
}

// Attribution summed over positions: (T, K + 1, 2), positive and negative parts.

/** Totals of one step: a list of {positive, negative}, the residual last. */
export function totalsAt({ data, shape }, step) {
  const channels = shape[1];
  return Array.from({ length: channels }, (_, k) => {
    const at = (step * channels + k) * 2;
    return { positive: data[at], negative: data[at + 1] };
  });
}

/** The net total of channel k at every step, or null where there is no such channel. */
export const channelSeries = memoized(({ data, shape }, k) => {
  const [steps, channels] = shape;
  if (!(k >= 0 && k < channels)) return null;
  return Float32Array.from(
    { length: steps },
    (_, t) => data[(t * channels + k) * 2] + data[(t * channels + k) * 2 + 1],
  );
});

// Small statistics for the trust panel.

/** Relative completeness error of every step: over the typical difference that attribution should account for. */
export function completenessErrors({ baseline, memory, completeness_error: error, output }) {
  const typical = output.reduce((sum, value, t) => sum + Math.abs(value - baseline[t] - memory[t]), 0) / output.length;
  return Float32Array.from(error, (value) => Math.abs(value) / (typical || 1));
}

export function quantile(values, q) {
  const sorted = Float32Array.from(values).sort();
  return sorted.length ? sorted[Math.round(q * (sorted.length - 1))] : NaN;
}

/** Counts of values in equal bins from 0 to limit; the last bin also has what is above. */
export function histogram(values, limit, bins = 24) {
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value / limit) * bins))] += 1;
  return counts;
}
