// Attribution summed over positions: (T, K + 1, 2), positive and negative parts.
import { memoized } from "./memo.js";

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

/** A scale that is fixed over the trajectory and that the strongest twentieth of the frames overflows. */
export const barScale = memoized(({ data, shape }, quantile = 0.95) => {
  const [steps, channels] = shape;
  const maxima = Float32Array.from({ length: steps }, (_, t) => {
    let most = 0;
    for (let i = t * channels * 2; i < (t + 1) * channels * 2; i += 1) most = Math.max(most, Math.abs(data[i]));
    return most;
  }).sort();
  return maxima[Math.floor(quantile * (steps - 1))] || 1;
});
