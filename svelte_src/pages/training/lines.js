// Parallel coordinates as pixels: how many lines cross each, which is much faster than thousands of strokes.

/** Pixels left and right of the outer axes, and above and below all. */
export const [SIDE, EDGE] = [36, 6];

/** The axes' positions along the width. */
export function axisPositions(count, width) {
  const room = Math.max(1, width - 2 * SIDE);
  return Array.from({ length: count }, (_, i) => Math.round(SIDE + (count > 1 ? (i * room) / (count - 1) : room / 2)));
}

/** Functions between an axis's numbers and pixels from the top. */
export const axisScale = ([low, high], height) => ({
  toY: (value) => EDGE + (1 - (value - low) / (high - low || 1)) * (height - 2 * EDGE - 1),
  toValue: (y) => low + (1 - (y - EDGE) / (height - 2 * EDGE - 1)) * (high - low),
});

/** Pixels from the top of each line at each axis, (T, axes); NaN where a number is missing. */
export function linePositions(columns, axes, height) {
  const steps = columns.step.length;
  const positions = new Float32Array(steps * axes.length).fill(NaN);
  axes.forEach(({ key, range }, i) => {
    const values = columns[key];
    if (!values) return;
    const { toY } = axisScale(range, height);
    for (let t = 0; t < steps; t += 1) positions[t * axes.length + i] = toY(values[t]);
  });
  return positions;
}

/**
 * How many lines cross each pixel.
 *
 * @param {Float32Array} positions (T, axes), from `linePositions`
 * @param {number[]} xs of the axes
 * @param {Uint8Array | null} mask which lines count; null: all
 * @returns {Uint16Array} (height, width)
 */
export function countLines(positions, xs, { width, height }, mask = null) {
  const counts = new Uint16Array(width * height);
  const axes = xs.length;
  const last = height - 1;
  for (let t = 0; t < positions.length / axes; t += 1) {
    if (mask && !mask[t]) continue;
    for (let i = 0; i + 1 < axes; i += 1) {
      const from = positions[t * axes + i];
      const to = positions[t * axes + i + 1];
      if (!(from >= 0 && from <= last && to >= 0 && to <= last)) continue;
      const slope = (to - from) / (xs[i + 1] - xs[i]);
      let y = from + 0.5;
      for (let x = xs[i]; x < xs[i + 1]; x += 1) {
        const next = y + slope;
        const [top, bottom] = slope < 0 ? [next | 0, y | 0] : [y | 0, next | 0];
        counts[top * width + x] += 1;
        for (let row = top + 1; row < bottom; row += 1) counts[row * width + x] += 1;
        y = next;
      }
    }
  }
  return counts;
}

/** The lines of several groups as one layer. @param {Uint16Array[]} list */
export const sumCounts = (list) =>
  Uint16Array.from(list[0] ?? [], (_, i) => list.reduce((sum, counts) => sum + counts[i], 0));

/**
 * Layers of lines over each other, as the bytes of an ImageData: a pixel is the more opaque the more lines cross it.
 *
 * @param {{counts: Uint16Array, color: number[], alpha: number}[]} layers from the lowest; `alpha`: opacity of one line
 */
export function paintLayers(layers, { width, height }) {
  const rgba = new Uint8ClampedArray(4 * width * height);
  for (const { counts, color, alpha } of layers) {
    const opacities = Float32Array.from({ length: 256 }, (_, n) => 1 - (1 - alpha) ** n);
    for (let i = 0; i < counts.length; i += 1) {
      if (counts[i] === 0) continue;
      const over = opacities[Math.min(255, counts[i])];
      const under = (rgba[4 * i + 3] / 255) * (1 - over);
      const sum = over + under;
      for (let c = 0; c < 3; c += 1) rgba[4 * i + c] = (color[c] * over + rgba[4 * i + c] * under) / sum;
      rgba[4 * i + 3] = 255 * sum;
    }
  }
  return rgba;
}

/** The opacity of a line among so many: few are plain, many still show where most are. */
export const lineAlpha = (count) => Math.max(0.06, Math.min(0.9, 12 / Math.sqrt(count + 1) / 2));

/** The line of a group that is nearest to a pixel between two axes, and how far away it is. */
export function nearestStep(positions, xs, { x, y }, mask = null) {
  const axes = xs.length;
  const i = Math.max(
    0,
    Math.min(
      axes - 2,
      xs.findLastIndex((at) => at <= x),
    ),
  );
  const share = (x - xs[i]) / (xs[i + 1] - xs[i]);
  let [step, distance] = [-1, Infinity];
  for (let t = 0; t < positions.length / axes; t += 1) {
    if (mask && !mask[t]) continue;
    const at = positions[t * axes + i] * (1 - share) + positions[t * axes + i + 1] * share;
    if (Math.abs(at - y) < distance) [step, distance] = [t, Math.abs(at - y)];
  }
  return { step, distance };
}
