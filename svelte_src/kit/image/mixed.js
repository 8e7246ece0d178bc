// Images in which the hues of all features are mixed: see "Composition" in docs/page-format.md.
import { frameOwnScale, PARTS } from "./values.js";

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

export function composeMixed(options) {
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

/** Add features to planes of red, green and blue, each height x width. @param {Float32Array[]} planes */
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
  const residual = new Float32Array(height * width);
  return { height, width, rgba, premultiplied: () => premultiplied(planes, threshold), residual, clipped: [] };
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
