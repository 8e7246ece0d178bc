// Images of attribution and saliency maps: see "Composition" in docs/page-format.md.
import { composeMixed } from "./mixed.js";
import { composeSaliency, saliencyKey } from "./saliency.js";
import { partsOf } from "./values.js";

/**
 * @typedef {object} Composition
 * @property {{height: number, width: number}} grid
 * @property {"pos" | "neg" | "abs" | "both"} sign the part of each value that is shown; "both" (mixed hues only): the
 *   positive part in its hue, the negative part in that of `negative`
 * @property {number | null} scale what values are divided by; null: the frame's own scale
 * @property {{data: Float32Array, depth: number}} values of one frame, height x width x depth, the residual, if any, being last
 * @property {number[][]} hues color of each feature: of unit L2 norm for mixed hues, else in 0..1
 * @property {number[][]} [negative] hues of negative parts
 * @property {number[]} chosen indices of the features that are shown
 * @property {boolean} [residual] whether the residual is shown
 * @property {boolean} [mixed] hues are weighted by the features' values and added, the residual as white; otherwise a position
 *   has the color of its strongest feature, and the residual is apart
 * @property {boolean} [smooth]
 * @property {{height: number, width: number}} [observation] in pixels, in which the radius of smoothing is measured
 * @property {number} [threshold] positions of less opacity than this stay empty
 */

/**
 * Compose one image, of attribution, or of saliency (`maps`: see saliency.js).
 *
 * @param {Composition | import("./saliency.js").SaliencyComposition} options
 * @returns {{height: number, width: number, rgba: Uint8ClampedArray, premultiplied: () => Float32Array, residual: Float32Array,
 *   clipped: number[]}} the bytes of an ImageData; the same as colors times opacity in 0..1; the opacity of the residual at each
 *   position; and the positions that exceed the scale. With mixed hues the last two are empty
 */
export function composeImage(options) {
  if ("maps" in options) return composeSaliency(options);
  return options.mixed ? composeMixed(options) : composeStrongest(options);
}

/** All that an image depends on. */
export const imageKey = (options) => (options.maps ? saliencyKey(options) : attributionKey(options));

const attributionKey = ({ grid, sign, scale, values, hues, chosen, residual, mixed, smooth, threshold }) => [
  grid.height,
  grid.width,
  sign,
  scale,
  values,
  hues,
  String(chosen),
  residual,
  mixed,
  smooth,
  threshold,
];

// Each position in the color of its strongest feature.

/** Pixels of an observation from which a position's amount is averaged, and over which weights fall to 1/e. */
const [REACH, FALL] = [2, 1];
/** Layers with fewer positions along a side are not smoothed. */
const FINE = 16;

/** @param {Composition} composition */
function composeStrongest({ grid, sign, scale, values, hues, chosen, residual, smooth, observation, threshold = 0 }) {
  const { height, width } = grid;
  const { depth } = values;
  const data = partsOf(values, sign);
  const divisor = scale ?? largestPart(data, depth, residual ? depth : hues.length);
  const last = depth - 1;
  const residualIsShown = residual && depth > hues.length;
  const nearby = smooth && observation ? neighbours(grid, observation) : null;
  const amount = (position, k) =>
    (nearby ? average(nearby, grid, position, data, depth, k) : data[position * depth + k]) / divisor;
  const rgba = new Uint8ClampedArray(height * width * 4);
  const hatched = new Float32Array(height * width);
  const alphas = new Float32Array(height * width);
  const strongest = new Int8Array(height * width).fill(-1);
  const clipped = [];
  for (let i = 0; i < height * width; i += 1) {
    let most = 0;
    for (let j = 0; j < chosen.length; j += 1) {
      const value = data[i * depth + chosen[j]];
      if (value > most) {
        most = value;
        strongest[i] = chosen[j];
      }
    }
    let largest = 0;
    if (most > 0) {
      const exact = amount(i, strongest[i]);
      const alpha = Math.min(1, exact);
      if (alpha >= threshold) {
        const hue = hues[strongest[i]];
        for (let c = 0; c < 3; c += 1) rgba[4 * i + c] = 255 * hue[c];
        rgba[4 * i + 3] = 255 * alpha;
        alphas[i] = alpha;
        largest = exact;
      }
    }
    if (residualIsShown && data[i * depth + last] > most) {
      const exact = amount(i, last);
      if (exact >= threshold) {
        hatched[i] = Math.min(1, exact);
        largest = Math.max(largest, exact);
      }
    }
    if (largest > 1 + 1e-6) clipped.push(i);
  }
  const premultiplied = () => {
    const out = new Float32Array(height * width * 4);
    alphas.forEach((alpha, i) => alpha && out.set([...hues[strongest[i]].map((x) => x * alpha), alpha], 4 * i));
    return out;
  };
  return { height, width, rgba, premultiplied, residual: hatched, clipped };
}

function largestPart(data, depth, count) {
  let most = 0;
  for (let start = 0; start < data.length; start += depth) {
    for (let k = 0; k < count; k += 1) if (data[start + k] > most) most = data[start + k];
  }
  return most || 1;
}

/** Offsets in positions and weights of what a position's amount is averaged over; null where there are no others. */
function neighbours({ height, width }, observation) {
  if (Math.min(height, width) < FINE) return null;
  const [unitY, unitX] = [observation.height / height, observation.width / width];
  const [rows, columns] = [Math.floor(REACH / unitY), Math.floor(REACH / unitX)];
  const offsets = [];
  for (let dy = -rows; dy <= rows; dy += 1) {
    for (let dx = -columns; dx <= columns; dx += 1) {
      const distance = Math.hypot(dy * unitY, dx * unitX);
      if (distance <= REACH) offsets.push({ dy, dx, weight: Math.exp(-distance / FALL) });
    }
  }
  return offsets.length > 1 ? offsets : null;
}

/** The weighted mean of a feature's parts at a position and those around it. */
function average(offsets, { height, width }, position, data, depth, k) {
  const x = position % width;
  const y = (position - x) / width;
  let sum = 0;
  let total = 0;
  for (let i = 0; i < offsets.length; i += 1) {
    const { dy, dx, weight } = offsets[i];
    const [row, column] = [y + dy, x + dx];
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    sum += weight * data[(row * width + column) * depth + k];
    total += weight;
  }
  return sum / total;
}
