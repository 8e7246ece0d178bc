// Changes of a layer's features, with the same results as rl_clarity/agents/editing.py.

const SWEEPS = 2000;
/** Change of coefficients, as a share of the largest, below which they are those of the nearest point. */
const PRECISION = 1e-7;

/**
 * Activations with a change of the layer's features.
 *
 * @param {Float32Array} values (B, h, w, c), or (B, c)
 * @param {number[]} shape (h, w, c), or (c)
 * @param {{only: number[], baseline: number[], factors: Record<string, number>, added: Record<string, number>, positions?: number[][]}} change
 *   as in `changeOf`
 * @param {ArrayLike<number>} components (K, c)
 * @param {Float32Array | null} start activations at the page's baseline, as `values`; null for zeros
 */
export function changedActivations(values, shape, change, components, start) {
  const channels = /** @type {number} */ (shape.at(-1));
  const [height, width] = shape.length === 3 ? shape : [1, 1];
  const component = (number) =>
    Float64Array.from({ length: channels }, (_, i) => components[(number - 1) * channels + i]);
  const mask = change.positions && new Set(change.positions.map(([row, column]) => row * width + column));
  const kept = change.only.length ? cone(change.only.map(component)) : null;
  const removed = change.baseline.map((number) => cone([component(number)]));
  const scaled = Object.keys(change.factors).map(Number);
  const factors = scaled.map((number) => change.factors[number]);
  const scaling = scaled.length ? cone(scaled.map(component)) : null;
  const steps = Object.entries(change.added).map(([number, amount]) =>
    component(Number(number)).map((part) => part * amount),
  );
  const changed = new Float32Array(values.length);
  for (let at = 0; at < values.length; at += channels) {
    let vector = Float64Array.from(values.subarray(at, at + channels));
    if (kept) vector = kept.combine(kept.coefficients(vector));
    if (!mask || mask.has((at / channels) % (height * width))) {
      for (const one of removed) {
        const there = start ? one.coefficients(start.subarray(at, at + channels))[0] : 0;
        add(vector, one.combine([there - one.coefficients(vector)[0]]));
      }
      if (scaling) {
        const weights = scaling.coefficients(vector);
        add(vector, scaling.combine(weights.map((weight, k) => (factors[k] - 1) * weight)));
      }
      for (const step of steps) add(vector, step);
    }
    changed.set(vector, at);
  }
  return changed;
}

function add(vector, other) {
  for (let i = 0; i < vector.length; i += 1) vector[i] += other[i];
}

/** The non-negative combinations of directions. `coefficients` are those of the point that is nearest to a vector. */
function cone(directions) {
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const gram = directions.map((one) => directions.map((other) => dot(one, other)));

  function coefficients(vector) {
    const target = directions.map((one) => dot(one, vector));
    const weights = target.map((value, k) => (gram[k][k] > 0 ? Math.max(0, value / gram[k][k]) : 0));
    if (weights.length === 1) return weights;
    for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
      let largest = 0;
      for (let k = 0; k < weights.length; k += 1) {
        if (!(gram[k][k] > 0)) continue;
        const others = dot(gram[k], weights) - gram[k][k] * weights[k];
        const next = Math.max(0, (target[k] - others) / gram[k][k]);
        largest = Math.max(largest, Math.abs(next - weights[k]));
        weights[k] = next;
      }
      if (largest <= PRECISION * Math.max(...weights)) break;
    }
    return weights;
  }

  const combine = (weights) =>
    directions[0].map((_, i) => directions.reduce((sum, one, k) => sum + weights[k] * one[i], 0));
  return { coefficients, combine };
}
