// What ablating a feature changes: the output on frames, and what the agent achieves.

/** Measures of a feature that the legend shows as bars, and sorts by. */
export const MEASURES = [
  { key: "attribution", label: "mean attribution" },
  { key: "lost", label: "lost without it" },
  { key: "achieved", label: "change of return" },
];

/**
 * @param {object} layer as `readManifest` returns it
 * @param {string} output id
 * @returns {{attribution?: number, lost?: number, absolute?: number, correlation?: number, achieved?: number,
 *   interval?: number[], row?: object}[]} one for each feature; `lost`: what the output loses when the feature is ablated, in
 *   attribution's direction; what the page does not have is undefined
 */
export function causalNumbers(layer, output) {
  const effects = layer.effects?.[output];
  const ablation = layer.ablation?.outputs?.[output];
  return Array.from({ length: layer.channels }, (_, k) => {
    const row = layer.behavior?.find(({ feature }) => feature === k + 1);
    return {
      attribution: effects?.[k],
      lost: ablation && -ablation.mean[k],
      absolute: ablation?.mean_abs[k],
      correlation: ablation?.correlation[k],
      achieved: row?.return_difference,
      interval: row?.return?.corrected_interval ?? row?.interval,
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

/** Measures in units of the output, which share a scale. */
const OF_OUTPUT = ["attribution", "lost"];

/** The largest magnitude of a measure among all features of a layer, intervals included. */
export function scaleOf(numbers, key) {
  const keys = OF_OUTPUT.includes(key) ? OF_OUTPUT : [key];
  const ends = numbers.flatMap((one) => [
    ...keys.map((other) => one[other]),
    ...(key === "achieved" ? (one.interval ?? []) : []),
  ]);
  return Math.max(1e-12, ...ends.filter(Number.isFinite).map(Math.abs));
}

/** Times that attribution and what is lost may differ; magnitudes below this share of the scale are not compared. */
const [FACTOR, COMPARED] = [3, 0.05];

/** How a feature's attribution and what the output loses without it contradict each other, in words; null if they do not. */
export function contradiction({ attribution, lost }, scale) {
  if (!Number.isFinite(attribution) || !Number.isFinite(lost)) return null;
  const [smaller, larger] = [attribution, lost].map(Math.abs).sort((a, b) => a - b);
  if (larger < COMPARED * scale) return null;
  if (larger <= FACTOR * smaller) return attribution * lost < 0 ? "they have opposite signs" : null;
  return `${Math.abs(lost) > Math.abs(attribution) ? "what is lost" : "attribution"} is more than three times as large`;
}

/** What a contradiction of a layer's ablation means, for readers. */
export const contradictionText = (problem, { to } = /** @type {{to?: string}} */ ({})) =>
  `Attribution and ablation differ: ${problem}. ${
    to === "baseline"
      ? "Both start from the same baseline, so a difference means that the output is not linear in the feature, or that the feature interacts with others."
      : "Ablation sets the feature to 0, but attribution starts from the baseline. Unless the baseline is zero activations, the two answer different questions."
  }`;

/** What ablation does to a feature, as the predicate of a sentence. */
export const ablationText = ({ to } = /** @type {{to?: string}} */ ({})) =>
  to === "baseline" ? "is set to its value at the baseline of attribution" : "is removed from the layer's activations";

/** Whether a test shows an effect. */
export const isClear = ({ adjusted_p: p }) => p < 0.05;

/** Those of a layer's clips that show a feature whose ablation changes the return beyond chance. */
export const clipsWithEvidence = (clips = [], rows = []) =>
  clips.filter((clip) => rows.some((row) => row.feature === clip.feature && row.layer === clip.layer && isClear(row)));

/** Quantiles of the normal distribution of a 95 % interval, and of a power of 80 %. */
const [LEVEL, POWER] = [1.96, 0.84];

/** The smallest true difference that a test of the table finds in four of five cases, from its 95 % and its corrected interval;
 * undefined where no two episodes differed, so that nothing is known of their spread.
 * @param {{interval: number[], corrected_interval?: number[] | null}} row */
export function detectable({ interval, corrected_interval: corrected }) {
  const [half, whole] = [interval, corrected ?? interval].map(([low, high]) => (high - low) / 2);
  return whole > 0 ? whole + (POWER * half) / LEVEL : undefined;
}

/** The measures that any feature has. */
export const measured = (numbers) => MEASURES.filter(({ key }) => numbers.some((one) => Number.isFinite(one[key])));

/** Indices of features, those with the largest magnitude of a measure first; in their own order without a measure. */
export function sortedFeatures(numbers, key) {
  const size = (k) => Math.abs(numbers[k][key] ?? 0);
  return [...numbers.keys()].sort((a, b) => (key ? size(b) - size(a) : 0) || a - b);
}

/**
 * Points of a scatter plot: a feature's attribution, and what the output loses when it is ablated, on the ablated frames.
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
      points.y.push(-change.data[i * features + channel]);
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
