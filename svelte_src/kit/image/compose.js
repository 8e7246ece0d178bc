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

/** The value that a code stands for, in units of attribution. */
export function decodeValue(code, frameScale) {
  return Math.sign(code) * (code / 127) ** 2 * frameScale;
}

/** The signed values of one position: a list of `depth` numbers. */
export function valuesAt(codes, depth, position, frameScale) {
  return Array.from(codes.subarray(position * depth, (position + 1) * depth), (code) => decodeValue(code, frameScale));
}

/** One frame of a chunk of maps. @returns {{codes: Int8Array, depth: number, frameScale: number}} */
export const frameCodes = memoized(({ arrays }, at) => {
  const [, height, width, depth] = arrays.codes.shape;
  const size = height * width * depth;
  return { codes: arrays.codes.data.subarray(at * size, (at + 1) * size), depth, frameScale: arrays.scales.data[at] };
});

/** What one frame is divided by when each frame has its own scale: its largest signed value of a channel. */
export function frameOwnScale(codes, depth, channels, frameScale) {
  let signed = -128;
  let absolute = 0;
  for (let start = 0; start < codes.length; start += depth) {
    for (let k = 0; k < channels; k += 1) {
      const code = codes[start + k];
      if (code > signed) signed = code;
      if (Math.abs(code) > absolute) absolute = Math.abs(code);
    }
  }
  return decodeValue(signed > 0 ? signed : absolute, frameScale) || 1;
}

/**
 * Compose one image.
 *
 * @param {object} options
 * @param {{height: number, width: number}} options.grid
 * @param {"pos" | "neg" | "abs" | "both"} options.sign the part of each value that is shown; "both": the positive part in its
 *   hue, the negative part in that of `negative`
 * @param {number | null} options.scale what values are divided by; null: the frame's own scale
 * @param {{codes: Int8Array, depth: number, frameScale: number}} options.values one frame's codes, height x width x depth, the
 *   residual, if any, being the last channel; code 127 stands for frameScale
 * @param {number[][]} options.hues color of each channel, unit L2 norm
 * @param {number[][]} [options.negative] hues of negative parts
 * @param {number[]} options.chosen indices of the channels that are shown
 * @param {boolean} [options.residual] whether the residual is added, as white
 * @param {boolean} [options.smooth] spread each position over its neighbours
 * @param {number} [options.threshold] positions of less opacity than this stay empty
 * @returns {{height: number, width: number, rgba: Uint8ClampedArray, premultiplied: () => Float32Array}} the bytes of an
 *   ImageData, and the same as colors times opacity in 0..1
 */
export function composeImage(options) {
  const { height, width } = options.grid;
  const { smooth = true, threshold = 0 } = options;
  const planes = [0, 1, 2].map(() => new Float32Array(height * width));
  if (options.sign === "both") {
    addChannels(planes, { ...options, sign: "neg", hues: options.negative });
    addChannels(planes, { ...options, sign: "pos" });
  } else {
    addChannels(planes, options);
  }
  return toImage(smooth ? planes.map((plane) => spread(plane, height, width)) : planes, height, width, threshold);
}

/** All that an image depends on. */
export const imageKey = ({ grid, sign, scale, values, hues, chosen, residual, smooth, threshold }) => [
  grid.height,
  grid.width,
  sign,
  scale,
  values,
  hues,
  String(chosen),
  residual,
  smooth,
  threshold,
];

/** Add channels to planes of red, green and blue, each height x width. */
function addChannels(
  [red, green, blue],
  { values: { codes, depth, frameScale }, sign, scale, hues, chosen, residual },
) {
  const strength = strengths(frameScale / (scale ?? frameOwnScale(codes, depth, hues.length, frameScale)), sign);
  const shown = chosen.map((channel) => [channel, ...hues[channel]]);
  if (residual && depth > hues.length) shown.push([depth - 1, 1, 1, 1]);
  for (const [channel, r, g, b] of shown) {
    for (let i = 0, at = channel; i < red.length; i += 1, at += depth) {
      const value = strength[codes[at] + 128];
      if (value === 0) continue;
      red[i] += r * value;
      green[i] += g * value;
      blue[i] += b * value;
    }
  }
}

/** The part of each of the 256 codes that a sign shows, where code 127 stands for 1. */
const UNITS = Object.fromEntries(
  Object.entries(PARTS).map(([sign, part]) => [
    sign,
    Float32Array.from({ length: 256 }, (_, i) => part(decodeValue(i - 128, 1))),
  ]),
);

/** What each of the 256 codes contributes. */
function strengths(scale, sign) {
  const units = UNITS[sign];
  const out = new Float32Array(256);
  for (let i = 0; i < 256; i += 1) out[i] = units[i] * scale;
  return out;
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
  return { height, width, rgba, premultiplied: () => premultiplied(planes, threshold) };
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

/** Turn RGBA bytes grey in place (ITU-R BT.601, as the images that Python draws). */
export function makeGrey(rgba) {
  for (let at = 0; at < rgba.length; at += 4) {
    const grey = 0.299 * rgba[at] + 0.587 * rgba[at + 1] + 0.114 * rgba[at + 2];
    rgba[at] = grey;
    rgba[at + 1] = grey;
    rgba[at + 2] = grey;
  }
}
