// Attribution pictures from reduced channels: see "Composition" in docs/page-format.md.

const RADIUS = 7;

/** For each vertical distance 0..7 the weights exp(-d) at horizontal distances 0..7; 0 where d > 7. */
const KERNEL = Array.from({ length: RADIUS + 1 }, (_row, dy) =>
  Float64Array.from({ length: RADIUS + 1 }, (_weight, dx) => {
    const distance = Math.hypot(dx, dy);
    return distance <= RADIUS ? Math.exp(-distance) : 0;
  }),
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
 * Compose one picture.
 *
 * @param {object} options
 * @param {Int8Array} options.codes one frame's codes, height x width x depth; the residual, if any, is the last channel
 * @param {number} options.frameScale the value of code 127
 * @param {number} options.scale what values are divided by
 * @param {number[][]} options.hues colour of each channel, unit L2 norm
 * @param {"pos" | "neg" | "abs"} options.direction the part of each value that is shown
 * @param {number[]} options.chosen indices of the channels that are shown
 * @param {boolean} options.residual whether the residual is added, as white
 * @param {boolean} [options.smooth] spread each position over its neighbours
 * @param {number} [options.threshold] positions of less opacity than this stay empty
 * @returns {{height: number, width: number, premultiplied: Float32Array, rgba: Uint8ClampedArray}} colours times
 *   opacity in 0..1, and the same as the bytes of an ImageData (not premultiplied)
 */
export function composeAttribution(options) {
  const { height, width, smooth = true, threshold = 0 } = options;
  const colored = colorPlanes(options);
  const planes = smooth ? colored.map((plane) => spread(plane, height, width)) : colored;
  return toPicture(planes, height, width, threshold);
}

/** Red, green and blue before smoothing, each height x width. */
function colorPlanes({ codes, height, width, depth, frameScale, scale, hues, direction, chosen, residual }) {
  const size = height * width;
  const [red, green, blue] = [0, 1, 2].map(() => new Float32Array(size));
  const strength = strengths(frameScale / scale, direction);
  const shown = chosen.map((channel) => [channel, ...hues[channel]]);
  if (residual && depth > hues.length) shown.push([depth - 1, 1, 1, 1]);
  for (const [channel, r, g, b] of shown) {
    for (let i = 0, at = channel; i < size; i += 1, at += depth) {
      const value = strength[codes[at] + 128];
      if (value === 0) continue;
      red[i] += r * value;
      green[i] += g * value;
      blue[i] += b * value;
    }
  }
  return [red, green, blue];
}

/** The part of each of the 256 codes that a direction shows, where code 127 stands for 1. */
const UNITS = Object.fromEntries(
  Object.entries(PARTS).map(([direction, part]) => [
    direction,
    Float32Array.from({ length: 256 }, (_, i) => part(decodeValue(i - 128, 1))),
  ]),
);

/** What each of the 256 codes contributes. */
function strengths(scale, direction) {
  const units = UNITS[direction];
  const out = new Float32Array(256);
  for (let i = 0; i < 256; i += 1) out[i] = units[i] * scale;
  return out;
}

/**
 * Convolve a plane with the kernel, zeros outside; rows of zeros cost nothing.
 *
 * Both symmetries are used: pixels at the same distance to the left and right are added first, and what a row gives to
 * the row so far above, it gives to the row as far below.
 */
export function spread(plane, height, width) {
  const out = new Float32Array((height + 2 * RADIUS) * width);
  const padded = new Float32Array(width + 2 * RADIUS);
  const sums = Array.from({ length: RADIUS + 1 }, () => new Float32Array(width));
  for (let y = 0; y < height; y += 1) {
    const row = plane.subarray(y * width, (y + 1) * width);
    if (isZero(row)) continue;
    padded.set(row, RADIUS);
    addMirrored(sums, padded);
    for (let dy = 0; dy <= RADIUS; dy += 1) {
      addWeighted(out, (y + RADIUS - dy) * width, (y + RADIUS + dy) * width, sums, KERNEL[dy]);
    }
  }
  return out.subarray(RADIUS * width, (RADIUS + height) * width);
}

function isZero(row) {
  for (let x = 0; x < row.length; x += 1) if (row[x] !== 0) return false;
  return true;
}

/** sums[dx][x] = row[x - dx] + row[x + dx] */
function addMirrored(sums, padded) {
  const width = sums[0].length;
  sums[0].set(padded.subarray(RADIUS, RADIUS + width));
  for (let dx = 1; dx <= RADIUS; dx += 1) {
    const sum = sums[dx];
    for (let x = 0; x < width; x += 1) sum[x] = padded[x + RADIUS - dx] + padded[x + RADIUS + dx];
  }
}

/** Add one row's weighted sums to the rows that start at `above` and `below`. */
function addWeighted(out, above, below, [s0, s1, s2, s3, s4, s5, s6, s7], [w0, w1, w2, w3, w4, w5, w6, w7]) {
  for (let x = 0; x < s0.length; x += 1) {
    const near = w0 * s0[x] + w1 * s1[x] + w2 * s2[x] + w3 * s3[x];
    const far = w4 * s4[x] + w5 * s5[x] + w6 * s6[x] + w7 * s7[x];
    out[above + x] += near + far;
    if (below !== above) out[below + x] += near + far;
  }
}

/** Turn brightness into opacity: alpha = min(1, norm of rgb), colour = rgb / alpha, clipped. */
function toPicture([red, green, blue], height, width, threshold) {
  const size = height * width;
  const premultiplied = new Float32Array(size * 4);
  const rgba = new Uint8ClampedArray(size * 4);
  for (let i = 0, at = 0; i < size; i += 1, at += 4) {
    const norm = Math.sqrt(red[i] * red[i] + green[i] * green[i] + blue[i] * blue[i]);
    if (norm === 0 || norm < threshold) continue;
    const alpha = Math.min(1, norm);
    premultiplied[at] = Math.min(1, red[i]);
    premultiplied[at + 1] = Math.min(1, green[i]);
    premultiplied[at + 2] = Math.min(1, blue[i]);
    premultiplied[at + 3] = alpha;
    rgba[at] = (255 * red[i]) / alpha;
    rgba[at + 1] = (255 * green[i]) / alpha;
    rgba[at + 2] = (255 * blue[i]) / alpha;
    rgba[at + 3] = 255 * alpha;
  }
  return { height, width, premultiplied, rgba };
}

/** Turn RGBA bytes grey in place (ITU-R BT.601, as the pictures that Python draws). */
export function makeGrey(rgba) {
  for (let at = 0; at < rgba.length; at += 4) {
    const grey = 0.299 * rgba[at] + 0.587 * rgba[at + 1] + 0.114 * rgba[at + 2];
    rgba[at] = grey;
    rgba[at + 1] = grey;
    rgba[at + 2] = grey;
  }
}
