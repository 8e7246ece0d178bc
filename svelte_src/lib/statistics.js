// Small statistics for the trust panel.

/** Relative completeness gap of every step: |sum of attribution - (s(a) - s(0))| over the typical |s(a) - s(0)|. */
export function completenessGaps({ data, shape }) {
  const steps = shape[0];
  let typical = 0;
  for (let t = 0; t < steps; t += 1) typical += Math.abs(data[t * 3 + 1]) / steps;
  return Float32Array.from({ length: steps }, (_, t) => Math.abs(data[t * 3] - data[t * 3 + 1]) / (typical || 1));
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
