// Directions of the states and behaviours, in numbers and words.
import { actionLabel } from "../../data/actions.js";
import { rowOf } from "../../data/series.js";
import { formatNumber } from "../../kit/shell/format.js";

/** What directions are correlated with, by the name in the data. */
const CORRELATES = {
  value: "value",
  entropy: "entropy of the policy",
  largest_log_probability: "largest log-probability",
  reward: "reward",
  return: "return of the episode",
  rewarded: "a rewarded episode",
  time: "time in the episode",
  share: "elapsed share of the episode",
  length: "length of the episode",
};
/** What methods of directions and clusters are called. */
const METHODS = {
  ica: "independent component analysis",
  pca: "principal component analysis",
  nmf: "non-negative matrix factorization",
  nmf_positive: "non-negative matrix factorization of positive activations",
  units: "single units",
  kmeans: "k-means",
  gaussian_mixture: "a Gaussian mixture",
  ward: "Ward's method",
  hdbscan: "HDBSCAN",
  hmm: "a hidden Markov model",
};
export const methodName = (method) => METHODS[method] ?? method;

/** A cosine below this is low: another fit finds another direction. */
const LOW = 0.7;

/** Correlations of a direction with numbers of the steps and with each action: [{key, label, value}]. */
export function correlationsOf(arrays, k, actions) {
  const numbers = Object.entries(CORRELATES)
    .filter(([key]) => arrays[`correlation.${key}`])
    .map(([key, label]) => ({ key, label, value: arrays[`correlation.${key}`].data[k] }));
  const taken = rowOf(arrays["correlation.action"], k) ?? [];
  return [
    ...numbers,
    ...taken.map((value, a) => ({ key: `action-${a}`, label: `action ${actionLabel(actions, a)}`, value })),
  ];
}

/** Look at a direction; `more`: give it a track beside the others, or take it away. */
export function choose({ selection }, component, more = false) {
  const { components } = selection.now;
  const others = components.filter((k) => k !== component);
  if (!more)
    return selection.change({ components: [component, ...others.slice(components.includes(component) ? 0 : 1)] });
  return selection.change({ components: others.length < components.length ? others : [...components, component] });
}

/** The directions whose removal changes the policy most first, and rare ones last. @returns {number[]} */
export function orderOf(directions) {
  const effect = (k) => directions[k].effect ?? 0;
  const rare = (k) => Number(directions[k].rare ?? false);
  return directions.map((_, k) => k).sort((a, b) => rare(a) - rare(b) || effect(b) - effect(a) || a - b);
}

const magnitude = ({ value }) => (Number.isFinite(value) ? Math.abs(value) : 0);

/** The entries of largest magnitude, the largest first. @template {{value: number}} Entry @param {Entry[]} list @returns {Entry[]} */
export const strongest = (list, count = 1) => [...list].sort((a, b) => magnitude(b) - magnitude(a)).slice(0, count);

/** Cosines with the other directions, the largest magnitude first: [{index, value}]. */
export const cosinesOf = (arrays, k) =>
  strongest(
    (rowOf(arrays.cosine, k) ?? []).map((value, index) => ({ index, value })).filter(({ index }) => index !== k),
    Infinity,
  );

/** Steps in an array (K, n, 2) of trajectory and frame; -1 where there are no more. */
export function placesOf(array, k) {
  const numbers = rowOf(array, k) ?? [];
  const places = Array.from({ length: numbers.length / 2 }, (_, i) => ({
    trajectory: numbers[2 * i],
    frame: numbers[2 * i + 1],
  }));
  return places.filter(({ trajectory }) => trajectory >= 0);
}

const stabilities = ({ seed_stability: seeds, half_stability: halves, fits }) =>
  [
    { value: seeds, where: "other seeds", of: "seeds", each: fits?.slice(0, 2) },
    { value: halves, where: "halves of the episodes", of: "halves of the episodes", each: fits?.slice(2) },
  ].filter(({ value }) => Number.isFinite(value));

/** Whether other fits find another component in its place. */
export const isUnstable = (direction) => stabilities(direction).some(({ value }) => value < LOW);

/** Whether a direction can be relied on, in words. */
export function stabilityText(direction) {
  const known = stabilities(direction);
  if (!known.length) return "Its stability was not measured.";
  const inEach = (each) => (each ? ` (${each.map((one) => formatNumber(one, 2)).join(" and ")})` : "");
  const numbers = known.map(({ value, of, each }) => `${formatNumber(value, 2)} over ${of}${inEach(each)}`).join(", ");
  const weak = known.filter(({ value }) => value < LOW);
  if (!weak.length) return `Stable: other fits find it again (cosine ${numbers}).`;
  const where = weak.map((one) => one.where).join(" and ");
  return `Low stability: fits with ${where} find another component in its place (cosine ${numbers}). Do not rely on it.`;
}

/** The table of directions. @returns {{columns: object[], rows: object[]}} */
export function directionTable({ states, arrays, label, actions }) {
  const lags = states.autocorrelation_lags ?? [];
  const shown = [lags[0], lags.at(-1)].filter((lag) => lag !== undefined);
  const rows = orderOf(states.directions).map((k) => {
    const direction = states.directions[k];
    const [best] = arrays ? strongest(correlationsOf(arrays, k, actions)) : [];
    const autocorrelation = rowOf(arrays?.autocorrelation, k) ?? [];
    return {
      index: k,
      name: label(k),
      effect: direction.effect,
      effect_low: direction.effect_interval?.[0],
      effect_high: direction.effect_interval?.[1],
      explained: direction.explained,
      seed_stability: direction.seed_stability,
      half_stability: direction.half_stability,
      kurtosis: direction.kurtosis,
      correlate: best?.label,
      correlation: best?.value,
      ...Object.fromEntries(lags.map((lag, i) => [`autocorrelation_${lag}`, autocorrelation[i]])),
    };
  });
  const columns = [
    { key: "name", label: "Component" },
    { key: "effect", label: "Policy change without it, nats" },
    { key: "explained", label: "Explains" },
    { key: "seed_stability", label: "Stability, seeds" },
    { key: "half_stability", label: "Stability, halves" },
    { key: "kurtosis", label: "Kurtosis" },
    { key: "correlate", label: "Correlates with" },
    { key: "correlation", label: "Correlation" },
    ...[...new Set(shown)].map((lag) => ({ key: `autocorrelation_${lag}`, label: `Autocorrelation, lag ${lag}` })),
  ];
  const isThere = ({ key }) => rows.some((row) => typeof row[key] === "string" || Number.isFinite(row[key]));
  return { columns: columns.filter(isThere), rows };
}

/** A behaviour's mean components in standard deviations of the steps: [{index, value}]. */
export const behaviourComponents = (states, arrays, k) =>
  (rowOf(arrays.components, k) ?? []).map((value, index) => ({
    index,
    value: value / (states.directions[index].scale || 1),
  }));

/** A cluster's label in words; numbers count from 0, and -1 are the steps in none. */
export const clusterName = (label) => {
  if (typeof label === "string") return label;
  return label < 0 ? "no cluster" : `cluster ${label + 1}`;
};
