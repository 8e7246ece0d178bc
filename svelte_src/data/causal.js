// What ablating a feature changes: the output on frames, and what the agent achieves.

/** Measures of a feature that the legend shows as bars, and sorts by. */
export const MEASURES = [
  { key: "attribution", label: "mean attribution" },
  { key: "change", label: "change when ablated" },
  { key: "achieved", label: "change of return" },
];

/**
 * @param {object} layer as `readManifest` returns it
 * @param {string} output id
 * @returns {{attribution?: number, change?: number, absolute?: number, correlation?: number, achieved?: number,
 *   interval?: number[], row?: object}[]} one for each feature; what the page does not have is undefined
 */
export function causalNumbers(layer, output) {
  const effects = layer.effects?.[output];
  const ablation = layer.ablation?.outputs?.[output];
  return Array.from({ length: layer.channels }, (_, k) => {
    const row = layer.behavior?.find(({ feature }) => feature === k + 1);
    return {
      attribution: effects?.[k],
      change: ablation?.mean[k],
      absolute: ablation?.mean_abs[k],
      correlation: ablation?.correlation[k],
      achieved: row?.return_difference,
      interval: row?.interval,
      row,
    };
  });
}

/**
 * A feature's mean attribution to each output and its spread over frames, for bars: on one scale for all features of a layer.
 *
 * @returns {{bars: {output: object, value: number, low?: number, high?: number}[], limits: number[]}} without outputs whose
 *   attribution is missing
 */
export function effectBars(layer, outputs, channel) {
  const known = outputs.filter(({ id }) => layer.effects?.[id]);
  const features = Array.from({ length: layer.channels }, (_, k) =>
    known.map((output) => {
      const [low, high] = layer.effect_spread?.[output.id]?.[k] ?? [];
      return { output, value: layer.effects[output.id][k], low, high };
    }),
  );
  const ends = features.flat().flatMap(({ value, low = value, high = value }) => [value, low, high]);
  return { bars: features[channel], limits: [Math.min(0, ...ends), Math.max(0, ...ends)] };
}

/** The measures that any feature has. */
export const measured = (numbers) => MEASURES.filter(({ key }) => numbers.some((one) => Number.isFinite(one[key])));

/** Indices of features, those with the largest magnitude of a measure first; in their own order without a measure. */
export function sortedFeatures(numbers, key) {
  const size = (k) => Math.abs(numbers[k][key] ?? 0);
  return [...numbers.keys()].sort((a, b) => (key ? size(b) - size(a) : 0) || a - b);
}

/**
 * Points of a scatter plot: a feature's attribution, and the output's change when it is ablated, on the ablated frames.
 *
 * @param {{arrays: object}[]} ablated chunks of `ablation`, one per trajectory
 * @param {{arrays: object}[]} totals chunks of totals, one per trajectory
 */
export function framePoints(ablated, totals, output, channel) {
  /** @type {Record<string, number[]>} */
  const points = { x: [], y: [], trajectory: [], frame: [] };
  ablated.forEach(({ arrays }, trajectory) => {
    const change = arrays[`change.${output}`];
    const sums = totals[trajectory].arrays[`totals.${output}`];
    if (!change || !sums) return;
    const [, features] = change.shape;
    const [, channels] = sums.shape;
    arrays.frames.data.forEach((frame, i) => {
      const at = 2 * (frame * channels + channel);
      points.x.push(sums.data[at] + sums.data[at + 1]);
      points.y.push(change.data[i * features + channel]);
      points.trajectory.push(trajectory);
      points.frame.push(frame);
    });
  });
  return Object.fromEntries(Object.entries(points).map(([key, data]) => [key, { data, shape: [data.length] }]));
}

/** Median, least and largest of numbers; null if there are none. */
export function spread(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const middle = (sorted.length - 1) / 2;
  return {
    median: (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2,
    least: sorted[0],
    largest: sorted.at(-1),
  };
}
