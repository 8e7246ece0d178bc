// Images of attribution and saliency maps: see "Composition" in docs/page-format.md.
import { memoized } from "../../data/cache.js";

const RADIUS = 7;

/** exp(-d) at the distances (0, 0), (1, 0), (1, 1), (2, 0) ... up to 7: other directions are the same by symmetry. */
const [
  [w00],
  [w10, w11],
  [w20, w21, w22],
  [w30, w31, w32, w33],
  [w40, w41, w42, w43, w44],
  [w50, w51, w52, w53, w54],
  [w60, w61, w62, w63],
  [w70],
] = Array.from({ length: RADIUS + 1 }, (_row, far) =>
  Array.from({ length: far + 1 }, (_weight, near) => Math.exp(-Math.hypot(far, near))),
);

const PARTS = {
  pos: (value) => Math.max(value, 0),
  neg: (value) => Math.max(-value, 0),
  abs: (value) => Math.abs(value),
};

/** The parts of a frame's values that a sign shows, computed once for all its images. @returns {Float32Array} */
export const partsOf = memoized(({ data }, sign) => data.map(PARTS[sign]));

/** The value that a code stands for, in units of attribution. */
export function decodeValue(code, frameScale) {
  return Math.sign(code) * (code / 127) ** 2 * frameScale;
}

/** The values of the 256 codes where code 127 stands for 1. */
const UNITS = Float64Array.from({ length: 256 }, (_, i) => decodeValue(i - 128, 1));

/** The signed values of one position: a list of `depth` numbers. */
export const valuesAt = ({ data, depth }, position) =>
  Array.from(data.subarray(position * depth, (position + 1) * depth));

/** One frame's values, or the sum of those of several chunks of maps, each times its weight. */
export function frameValues(parts, at) {
  const [, height, width, depth] = parts[0].chunk.arrays.codes.shape;
  const size = height * width * depth;
  const data = new Float32Array(size);
  for (const { chunk, weight } of parts) {
    const { codes, scales } = chunk.arrays;
    const factor = scales.data[at] * weight;
    const first = at * size;
    for (let i = 0; i < size; i += 1) data[i] += UNITS[codes.data[first + i] + 128] * factor;
  }
  return { data, depth };
}

/** What one frame is divided by when each frame has its own scale: its largest signed value of a feature. */
export function frameOwnScale({ data, depth }, features) {
  let signed = -Infinity;
  let absolute = 0;
  for (let start = 0; start < data.length; start += depth) {
    for (let k = 0; k < features; k += 1) {
      const value = data[start + k];
      if (value > signed) signed = value;
      if (Math.abs(value) > absolute) absolute = Math.abs(value);
    }
  }
  return (signed > 0 ? signed : absolute) || 1;
}

/** The share of positions that may exceed the scale of a trajectory. */
const CLIPPED = 0.0075;

/** What few positions of some frames exceed with their largest value of any sign. */
export function fullScale(frames) {
  const largest = frames.flatMap(({ data, depth }) => {
    const list = [];
    for (let start = 0; start < data.length; start += depth) {
      let most = 0;
      for (let at = start; at < start + depth; at += 1) most = Math.max(most, Math.abs(data[at]));
      if (most > 0) list.push(most);
    }
    return list;
  });
  const sorted = Float32Array.from(largest).sort();
  return sorted.length ? sorted[Math.ceil((1 - CLIPPED) * sorted.length) - 1] : 1;
}

/**
 * @typedef {object} Composition
 * @property {{height: number, width: number}} grid
 * @property {"pos" | "neg" | "abs" | "both"} sign the part of each value that is shown; "both" (mixed hues only): the
 *   positive part in its hue, the negative part in that of `negative`
 * @property {number | null} scale what values are divided by; null: the frame's own scale
 * @property {{data: Float32Array, depth: number}} values of one frame, height x width x depth, the rest, if any, being last
 * @property {number[][]} hues color of each feature: of unit L2 norm for mixed hues, else in 0..1
 * @property {number[][]} [negative] hues of negative parts
 * @property {number[]} chosen indices of the features that are shown
 * @property {boolean} [residual] whether the rest is shown
 * @property {boolean} [mixed] hues are weighted by the features' values and added, the rest as white; otherwise a position
 *   has the color of its strongest feature, and the rest is apart
 * @property {boolean} [smooth]
 * @property {{height: number, width: number}} [observation] in pixels, in which the radius of smoothing is measured
 * @property {number} [threshold] positions of less opacity than this stay empty
 */

/**
 * Compose one image.
 *
 * @param {Composition} options
 * @returns {{height: number, width: number, rgba: Uint8ClampedArray, premultiplied: () => Float32Array, rest: Float32Array,
 *   clipped: number[]}} the bytes of an ImageData; the same as colors times opacity in 0..1; the opacity of the rest at each
 *   position; and the positions that exceed the scale. With mixed hues the last two are empty
 */
export const composeImage = (options) => (options.mixed ? composeMixed(options) : composeStrongest(options));

/** All that an image depends on. */
export const imageKey = ({ grid, sign, scale, values, hues, chosen, residual, mixed, smooth, threshold }) => [
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

function composeStrongest({ grid, sign, scale, values, hues, chosen, residual, smooth, observation, threshold = 0 }) {
  const { height, width } = grid;
  const { depth } = values;
  const data = partsOf(values, sign);
  const divisor = scale ?? largestPart(data, depth, residual ? depth : hues.length);
  const last = depth - 1;
  const restIsShown = residual && depth > hues.length;
  const nearby = smooth && observation ? neighbours(grid, observation) : null;
  const amount = (position, k) =>
    (nearby ? average(nearby, grid, position, data, depth, k) : data[position * depth + k]) / divisor;
  const rgba = new Uint8ClampedArray(height * width * 4);
  const rest = new Float32Array(height * width);
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
    if (restIsShown && data[i * depth + last] > most) {
      const exact = amount(i, last);
      if (exact >= threshold) {
        rest[i] = Math.min(1, exact);
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
  return { height, width, rgba, premultiplied, rest, clipped };
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

// All hues mixed.

function composeMixed(options) {
  const { height, width } = options.grid;
  const { smooth = true, threshold = 0 } = options;
  const planes = [0, 1, 2].map(() => new Float32Array(height * width));
  if (options.sign === "both") {
    addFeatures(planes, { ...options, sign: "neg", hues: options.negative });
    addFeatures(planes, { ...options, sign: "pos" });
  } else {
    addFeatures(planes, options);
  }
  return toImage(smooth ? planes.map((plane) => spread(plane, height, width)) : planes, height, width, threshold);
}

/** Add features to planes of red, green and blue, each height x width. */
function addFeatures([red, green, blue], { values, sign, scale, hues, chosen, residual }) {
  const { data, depth } = values;
  const part = PARTS[sign];
  const divisor = scale ?? frameOwnScale(values, hues.length);
  const shown = chosen.map((k) => [k, ...hues[k]]);
  if (residual && depth > hues.length) shown.push([depth - 1, 1, 1, 1]);
  for (const [k, r, g, b] of shown) {
    for (let i = 0, at = k; i < red.length; i += 1, at += depth) {
      const value = part(data[at]) / divisor;
      if (value === 0) continue;
      red[i] += r * value;
      green[i] += g * value;
      blue[i] += b * value;
    }
  }
}

/**
 * Convolve a plane with the kernel, zeros outside; rows of zeros cost nothing.
 *
 * All symmetries are used: pixels at the same distance to the left and right are added first, and what a row gives to
 * the row so far above, it gives to the row as far below.
 */
export function spread(plane, height, width) {
  const padded = new Float64Array(width + 2 * RADIUS);
  const out = new Float32Array((height + 2 * RADIUS) * width);
  for (let y = 0; y < height; y += 1) {
    const row = plane.subarray(y * width, (y + 1) * width);
    if (isZero(row)) continue;
    padded.set(row, RADIUS);
    spreadRow(out, (y + RADIUS) * width, padded, width);
  }
  return out.subarray(RADIUS * width, (RADIUS + height) * width);
}

function isZero(row) {
  for (let x = 0; x < row.length; x += 1) if (row[x] !== 0) return false;
  return true;
}

/** Add what one row gives to the rows around it; it starts at `start`. Written out, as this is most of the page's work. */
function spreadRow(out, start, row, width) {
  for (let x = 0; x < width; x += 1) {
    const s0 = row[x + 7];
    const s1 = row[x + 6] + row[x + 8];
    const s2 = row[x + 5] + row[x + 9];
    const s3 = row[x + 4] + row[x + 10];
    const s4 = row[x + 3] + row[x + 11];
    const s5 = row[x + 2] + row[x + 12];
    const s6 = row[x + 1] + row[x + 13];
    const s7 = row[x] + row[x + 14];
    const at = start + x;
    out[at] += w00 * s0 + w10 * s1 + w20 * s2 + w30 * s3 + w40 * s4 + w50 * s5 + w60 * s6 + w70 * s7;
    addBoth(out, at, width, w10 * s0 + w11 * s1 + w21 * s2 + w31 * s3 + w41 * s4 + w51 * s5 + w61 * s6);
    addBoth(out, at, 2 * width, w20 * s0 + w21 * s1 + w22 * s2 + w32 * s3 + w42 * s4 + w52 * s5 + w62 * s6);
    addBoth(out, at, 3 * width, w30 * s0 + w31 * s1 + w32 * s2 + w33 * s3 + w43 * s4 + w53 * s5 + w63 * s6);
    addBoth(out, at, 4 * width, w40 * s0 + w41 * s1 + w42 * s2 + w43 * s3 + w44 * s4 + w54 * s5);
    addBoth(out, at, 5 * width, w50 * s0 + w51 * s1 + w52 * s2 + w53 * s3 + w54 * s4);
    addBoth(out, at, 6 * width, w60 * s0 + w61 * s1 + w62 * s2 + w63 * s3);
    addBoth(out, at, 7 * width, w70 * s0);
  }
}

function addBoth(out, at, distance, value) {
  out[at - distance] += value;
  out[at + distance] += value;
}

/** Turn brightness into opacity: alpha = min(1, norm of rgb), color = rgb / alpha, clipped. */
function toImage(planes, height, width, threshold) {
  const [red, green, blue] = planes;
  const rgba = new Uint8ClampedArray(height * width * 4);
  for (let i = 0, at = 0; at < rgba.length; i += 1, at += 4) {
    const norm = Math.sqrt(red[i] * red[i] + green[i] * green[i] + blue[i] * blue[i]);
    if (norm === 0 || norm < threshold) continue;
    const alpha = Math.min(1, norm);
    const unit = 255 / alpha;
    rgba[at] = unit * red[i];
    rgba[at + 1] = unit * green[i];
    rgba[at + 2] = unit * blue[i];
    rgba[at + 3] = 255 * alpha;
  }
  const rest = new Float32Array(height * width);
  return { height, width, rgba, premultiplied: () => premultiplied(planes, threshold), rest, clipped: [] };
}

function premultiplied([red, green, blue], threshold) {
  const out = new Float32Array(red.length * 4);
  for (let i = 0; i < red.length; i += 1) {
    const norm = Math.hypot(red[i], green[i], blue[i]);
    if (norm >= threshold)
      out.set(
        [red[i], green[i], blue[i], norm].map((x) => Math.min(1, x)),
        4 * i,
      );
  }
  return out;
}

/** Pixels along the longer side of an image of marks, and between lines of the hatch. */
const [SIDE, GAP] = [256, 12];

/**
 * Marks over an image: a hatch in black and white where the rest is strongest, whose opacity is its amount, and a dot at
 * each position that exceeds the scale.
 *
 * @param {{height: number, width: number, rest: Float32Array, clipped: number[]}} image as `composeImage` returns it
 * @returns {{height: number, width: number, rgba: Uint8ClampedArray}} whole pixels for each position
 */
export function drawMarks({ height, width, rest, clipped }) {
  const size = Math.max(1, Math.round(SIDE / Math.max(height, width)));
  const marks = { height: height * size, width: width * size };
  const rgba = new Uint8ClampedArray(marks.height * marks.width * 4);
  function put(x, y, level, alpha) {
    const at = 4 * (y * marks.width + x);
    rgba[at] = rgba[at + 1] = rgba[at + 2] = level;
    rgba[at + 3] = 255 * alpha;
  }
  for (let position = 0; position < rest.length; position += 1) {
    const alpha = rest[position];
    if (alpha === 0) continue;
    const left = size * (position % width);
    const top = size * Math.floor(position / width);
    for (let y = top; y < top + size; y += 1) {
      for (let x = left; x < left + size; x += 1) {
        const phase = (x + y) % GAP;
        if (phase < 5) put(x, y, phase < 2 ? 0 : 255, alpha);
      }
    }
  }
  const radius = Math.max(1, Math.min(5, size / 3));
  for (const position of clipped) {
    const [middleY, middleX] = [Math.floor(position / width) + 0.5, (position % width) + 0.5].map((at) => at * size);
    for (let y = Math.ceil(middleY - radius); y < middleY + radius; y += 1) {
      for (let x = Math.ceil(middleX - radius); x < middleX + radius; x += 1) {
        const distance = Math.hypot(x - middleX, y - middleY);
        if (distance <= radius) put(x, y, distance > radius - 1.5 ? 0 : 255, 1);
      }
    }
  }
  return { ...marks, rgba };
}
