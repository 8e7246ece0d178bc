// Matrices of causes (docs/page-format.md): entry [i, j] relates component i at a step to component j some steps later.

/** Shares of a matrix's largest magnitude that an entry of both may have to reach where they agree. */
export const THRESHOLDS = [0.1, 0, 0.05, 0.2, 0.5];

/** What can be shown as influence, in the order of preference. */
export const PATHS = [
  { id: "memory", key: "influence", label: "memory" },
  { id: "whole", key: "influence.world", label: "memory and world" },
];

/** The paths of influence that a chunk has. */
export const pathsIn = (arrays) => PATHS.filter(({ key }) => arrays[key]);

/**
 * A matrix (D * D) of a quantity at one lag; null where the page has none.
 *
 * @param {string} key "correlation", "influence" or "influence.world"
 * @param {number} lag index of the lag
 * @param {number | null} cluster index of the cluster; null: all steps
 */
export function matrixAt(arrays, key, lag, cluster = null) {
  const array = arrays[cluster === null ? key : `${key}.by`];
  if (!array) return null;
  const size = array.shape.at(-1) ** 2;
  const at = cluster === null ? lag : cluster * array.shape[1] + lag;
  return array.data.subarray(at * size, (at + 1) * size);
}

/** The 95 % interval of the correlation [low, high] of entry `index` of a matrix; null for clusters. */
export function intervalAt(arrays, lag, cluster, index) {
  const array = arrays["correlation.interval"];
  if (!array || cluster !== null) return null;
  const at = 2 * (lag * array.shape[1] ** 2 + index);
  return [array.data[at], array.data[at + 1]];
}

const largest = (values) => values.reduce((most, value) => (Math.abs(value) > most ? Math.abs(value) : most), 0);

/** What has the full color: the largest magnitude off the diagonal, where a component's own later value would hide the rest. */
export function limitOf(values) {
  const size = Math.sqrt(values.length);
  return largest(values.filter((_, i) => i % (size + 1) !== 0)) || largest(values) || 1;
}

/** Signs where two matrices agree and both exceed the threshold, else 0. */
export function agreement(first, second, threshold) {
  const [a, b] = [first, second].map((values) => threshold * largest(values));
  return Float32Array.from(first, (value, i) => {
    const isLarge = Math.abs(value) >= a && Math.abs(second[i]) >= b;
    return isLarge && value * second[i] > 0 ? Math.sign(value) : 0;
  });
}

/** How often signs agree by lag: {share, low, high, p} (L), against random orders; null where the page has none. */
export function consistencyAt(arrays, cluster = null) {
  const name = (key) => (cluster === null ? `consistency.${key}` : `consistency.by.${key}`);
  const share = arrays[name("share")];
  if (!share) return null;
  const lags = share.shape.at(-1);
  const start = (cluster ?? 0) * lags;
  const part = (array, from, step) =>
    array ? Array.from({ length: lags }, (_, l) => array.data[(start + l) * step + from]) : null;
  const nulls = arrays[name("null")];
  return {
    share: part(share, 0, 1),
    low: part(nulls, 0, 2),
    high: part(nulls, 1, 2),
    p: part(arrays[name("p")], 0, 1),
  };
}
