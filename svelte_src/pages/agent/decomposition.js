// The decomposition of an output: its parts, their shares, and their waterfall.
import { differenceFrom } from "../../data/decomposition.js";
import { memoized } from "../../data/cache.js";
import { hasFeatures } from "../../data/manifest.js";
import { decompositionFor, findOutput, incompleteSteps } from "../../data/questions.js";

/** Parts of a decomposition after the features, in order. */
const OTHERS = ["residual", "memory", "completeness_error", "start"];
/** What readers see below their columns; the error is the completeness error. */
export const PART_WORDS = { completeness_error: "error", start: "baselines" };
/** The same where columns are narrow. */
const SHORT_WORDS = { residual: "res.", completeness_error: "error", start: "base." };
/** Tooltips of the columns. */
export const PART_TITLES = {
  baseline: "the output at the layer’s baseline",
  mean: "the mean of the output over the episode",
  start: "the difference between the outputs at the two baselines",
  residual: "the residual, which the features leave out",
  memory: "what the agent’s memory adds at the baseline",
  completeness_error: "the completeness error, which the integral leaves out",
};

/** Why attribution is hatched. */
export const INCOMPLETE = "the completeness error is above 5 % of the output\u2019s range";

/** What a decomposition begins with, in a word. */
export const startWord = (instead) =>
  instead === null ? "baseline" : instead === "mean" ? "mean" : `frame ${instead + 1}`;

/**
 * The decomposition of a target, from its layer's totals and the numbers along its trajectory; null where the page lacks them.
 *
 * With `instead`, a step or the mean of the episode, it is the difference of two decompositions.
 */
export function targetDecomposition(manifest, totals, { layer, output, instead = null }, series) {
  const ofInput = manifest.layers[layer].kind === "input";
  const numbers = totals[`totals.${output}`];
  const decomposition = ofInput
    ? numbers && channelDecomposition(numbers)
    : decompositionFor(manifest, totals, findOutput(manifest, output), series);
  if (!decomposition || instead === null || ofInput || !series) return decomposition ?? null;
  return differenceFrom(decomposition, instead < decomposition.output.length ? instead : "mean", series.firsts.data);
}

/** Whether the completeness error of a target's frame is too large. */
export const isIncomplete = (manifest, { layer, output, frame }, decomposition) =>
  manifest.layers[layer].kind !== "input" &&
  incompleteSteps(manifest, findOutput(manifest, output), decomposition)[frame];

/** The decomposition of a layer without a baseline, the input: only its channels, from totals (T, K, 2). */
export function channelDecomposition({ data, shape: [steps, channels] }) {
  const zeros = new Float64Array(steps);
  const net = (t, k) => data[(t * channels + k) * 2] + data[(t * channels + k) * 2 + 1];
  const features = Array.from({ length: channels }, (_, k) =>
    Float64Array.from({ length: steps }, (_step, t) => net(t, k)),
  );
  const output = zeros.map((_, t) => features.reduce((sum, feature) => sum + feature[t], 0));
  return { baseline: zeros, features, residual: zeros, memory: zeros, completeness_error: zeros, output };
}

/** The series that are added to the baseline, in order: [{name, channel?, values}]. */
export const partsOf = memoized((decomposition) => [
  ...decomposition.features.map((values, k) => ({ name: `feature-${k + 1}`, channel: k, values })),
  ...OTHERS.filter((name) => decomposition[name]).map((name) => ({
    name,
    values: decomposition[name],
    ...(name === "residual" && { channel: decomposition.features.length }),
  })),
]);

/**
 * The steps of a frame's waterfall: where each part begins and ends, less the baseline.
 *
 * @returns {{name: string, channel?: number, value: number, from: number, to: number}[]}
 */
export function waterfall(decomposition, frame) {
  let level = 0;
  return partsOf(decomposition).map(({ name, channel, values }) => {
    const [from, value] = [level, values[frame]];
    level += value;
    return { name, channel, value, from, to: level };
  });
}

/** Smallest and largest level of the waterfalls of a trajectory: [low, high], less the baseline. */
export const waterfallRange = memoized((decomposition) => {
  let [low, high] = [0, 0];
  for (let t = 0; t < decomposition.output.length; t += 1) {
    let level = 0;
    for (const { values } of partsOf(decomposition)) {
      level += values[t];
      low = Math.min(low, level);
      high = Math.max(high, level);
    }
  }
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
});

/** Sums of the parts that raise and of those that lower the output, at every step: {raised, lowered}, from the baseline. */
export const stackEnds = memoized((decomposition) => {
  const sum = (part) =>
    decomposition.output.map((_, t) =>
      partsOf(decomposition).reduce((total, { values }) => total + part(values[t], 0), 0),
    );
  return { raised: sum(Math.max), lowered: sum(Math.min) };
});

/** Smallest and largest number of the stack of a trajectory. */
export const stackRange = memoized((decomposition) => {
  const { raised, lowered } = stackEnds(decomposition);
  const low = decomposition.baseline.reduce((least, value, t) => Math.min(least, value + lowered[t]), Infinity);
  const high = decomposition.baseline.reduce((most, value, t) => Math.max(most, value + raised[t]), -Infinity);
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
});

/**
 * What an output's variance over frames is due to, as shares that add up to 1: `variance_share` and `unexplained` in Python.
 * null for an output that does not vary.
 */
export const varianceShares = memoized(({ output, baseline, memory, completeness_error: error }) => {
  const centered = (values) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return values.map((value) => value - mean);
  };
  const product = (a, b) => a.reduce((sum, value, t) => sum + value * b[t], 0);
  const varied = centered(output);
  const whole = product(varied, varied);
  if (!(whole > 0)) return null;
  const left = centered(output.map((_, t) => baseline[t] + memory[t] + error[t]));
  const [before, remembered, missed] = [baseline, memory, error].map((part) => product(part, left) / whole);
  return {
    explained: 1 - product(left, left) / whole,
    baseline: before,
    memory: remembered,
    completeness_error: missed,
  };
});

/** The same of a layer: what the page says of all trajectories, or else what a decomposition says of one. */
export function layerShares(layer, output, decomposition) {
  const explained = layer.variance_share?.[output];
  return explained === undefined
    ? decomposition && hasFeatures(layer) && varianceShares(decomposition.whole ?? decomposition)
    : explained !== null && { explained, ...layer.unexplained?.[output] };
}

/** What the variance that a layer's attribution does not explain is due to: [[name, share]], the largest first. */
export const unexplainedParts = (layer, { memory = 0, completeness_error: error = 0, baseline = 0 }) =>
  /** @type {[string, number][]} */ ([
    ["memory", memory],
    ["completeness error", error],
    [layer.bypassed ? "baseline and paths around the layer" : "baseline", baseline],
  ])
    .filter(([, share]) => Math.abs(share) >= 0.005)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));

/** The share of all attribution, by its size at every frame, that the features account for. */
export const coverage = memoized(({ features, residual }) => {
  const size = (list) => list.reduce((sum, values) => values.reduce((total, value) => total + Math.abs(value), sum), 0);
  const [covered, left] = [size(features), size([residual])];
  return covered + left > 0 ? covered / (covered + left) : null;
});

/** Pixels that a waterfall is high. */
export const HEIGHT = 72;

/** Where a level is drawn, in pixels from the top. */
export const edge = (level, least, most) => HEIGHT * (1 - (level - least) / (most - least));

/**
 * How a step of the waterfall is drawn: as places of backgrounds, in CSS, since boxes, transforms and clips that change with
 * every frame cost several times as much.
 */
export function waterfallColumn({ name, channel, value, from, to }, least, most, palette) {
  const [top, bottom] = [edge(Math.max(from, to), least, most), edge(Math.min(from, to), least, most)];
  return {
    name,
    channel,
    value,
    color: palette[channel]?.color ?? null,
    word: name.startsWith("feature") ? String(channel + 1) : (SHORT_WORDS[name] ?? name),
    position: `50% ${top.toFixed(1)}px, 100% ${levelAt(to, least, most)}`,
    size: `min(64%, 100% - 4px) ${(bottom - top).toFixed(1)}px, 50% 1px`,
  };
}

/** The same of a level. */
export const levelAt = (level, least, most) => `${(edge(level, least, most) - 0.5).toFixed(1)}px`;
