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
 * @param {{width: number, height: number}} size
 * @param {Uint8Array | null} mask which lines count; null: all
 * @param {{mask: Uint8Array, counts: Uint16Array} | null} before the counts of another mask of the same lines, which
 *   become those of `mask`: while an axis is brushed, few lines change from one move to the next
 * @returns {Uint16Array} (height, width)
 */
export function countLines(positions, xs, { width, height }, mask = null, before = null) {
  const counts = before?.counts ?? new Uint16Array(width * height);
  const axes = xs.length;
  const last = height - 1;
  for (let t = 0; t < positions.length / axes; t += 1) {
    const change = (mask ? mask[t] : 1) - (before ? before.mask[t] : 0);
    if (change === 0) continue;
    for (let i = 0; i + 1 < axes; i += 1) {
      const from = positions[t * axes + i];
      const to = positions[t * axes + i + 1];
      if (!(from >= 0 && from <= last && to >= 0 && to <= last)) continue;
      const slope = (to - from) / (xs[i + 1] - xs[i]);
      let y = from + 0.5;
      for (let x = xs[i]; x < xs[i + 1]; x += 1) {
        const next = y + slope;
        const [top, bottom] = slope < 0 ? [next | 0, y | 0] : [y | 0, next | 0];
        counts[top * width + x] += change;
        for (let row = top + 1; row < bottom; row += 1) counts[row * width + x] += change;
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
  const pixels = new Uint32Array(width * height);
  const inks = layers.map(({ counts, color: [red, green, blue], alpha }) => {
    const opacities = Float64Array.from({ length: 256 }, (_, n) => 1 - (1 - alpha) ** n);
    return { counts, red, green, blue, opacities };
  });
  for (let i = 0; i < pixels.length; i += 1) {
    let r = 0;
    let g = 0;
    let b = 0;
    let opacity = 0;
    for (let k = 0; k < inks.length; k += 1) {
      const { counts, red, green, blue, opacities } = inks[k];
      if (counts[i] === 0) continue;
      const over = opacities[counts[i] < 255 ? counts[i] : 255];
      r += (red - r) * over;
      g += (green - g) * over;
      b += (blue - b) * over;
      opacity += (1 - opacity) * over;
    }
    if (opacity === 0) continue;
    // Colors are multiplied by the opacity; those of an ImageData are not, and its bytes begin with red.
    const scale = 1 / opacity;
    pixels[i] =
      (r * scale + 0.5) | ((g * scale + 0.5) << 8) | ((b * scale + 0.5) << 16) | ((255 * opacity + 0.5) << 24);
  }
  return new Uint8ClampedArray(pixels.buffer);
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
