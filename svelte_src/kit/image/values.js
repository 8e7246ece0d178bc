// Values of frames of attribution and saliency maps, and the scales of their images.
import { memoized } from "../../data/cache.js";

export const PARTS = {
  pos: (value) => Math.max(value, 0),
  neg: (value) => Math.max(-value, 0),
  abs: (value) => Math.abs(value),
};

/** The same for whole arrays, several times as fast: what values below and above zero are multiplied by. */
const FACTORS = { pos: [0, 1], neg: [-1, 0], abs: [-1, 1] };

/** The parts of a frame's values that a sign shows, computed once for all its images. @returns {Float32Array} */
export const partsOf = memoized(({ data }, sign) => {
  const [below, above] = FACTORS[sign];
  const parts = new Float32Array(data.length);
  for (let i = 0; i < data.length; i += 1) parts[i] = data[i] * (data[i] < 0 ? below : above);
  return parts;
});

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
