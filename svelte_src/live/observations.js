// What the agent observed, from the chunks of frames, and observations that are changed as rl_clarity/live/network.py does.
import { NEWEST, STACK } from "../data/frames.js";
import { Refusal } from "../data/ask.js";

/** Width, in pixels, of the surroundings of a box whose median it is painted with. */
const RING = 2;

/** @typedef {{height: number, width: number, channels: number}} Size of an observation (H, W, C) */

/**
 * A function that reads the observations (n, H, W, C) of steps from the first to the last, which is included.
 *
 * @param {object} manifest as `readManifest` returns it
 * @param {(name: string) => Promise<any>} chunk
 * @returns {(trajectory: number, first: number, last: number) => Promise<Uint8Array[]>}
 */
export function createObservations({ trajectories, segment, observation }, chunk) {
  const { height, width, stack } = observation;
  const prefix = stack > 1 ? STACK : NEWEST;

  async function read(trajectory, step) {
    const arrays = await chunk(trajectories[trajectory].frames[Math.floor(step / segment)]);
    const pixels = arrays[`${prefix}pixels`];
    if (pixels) {
      const length = height * width * observation.channels;
      return unstacked(pixels.subarray((step % segment) * length, ((step % segment) + 1) * length), observation);
    }
    const offsets = arrays[`${prefix}offsets`];
    const png = arrays[`${prefix}png`].subarray(offsets[step % segment], offsets[(step % segment) + 1]);
    return unstacked(await pngPixels(png, observation.channels / stack), observation);
  }

  return (trajectory, first, last) =>
    Promise.all(Array.from({ length: last - first + 1 }, (_, i) => read(trajectory, first + i)));
}

/** Frames side by side (H, stack * W, c) as an observation (H, W, stack * c). */
export function unstacked(pixels, { height, width, channels, stack }) {
  if (stack === 1) return Uint8Array.from(pixels);
  const depth = channels / stack;
  const observation = new Uint8Array(pixels.length);
  for (let row = 0; row < height; row += 1)
    for (let part = 0; part < stack; part += 1)
      for (let column = 0; column < width; column += 1)
        for (let k = 0; k < depth; k += 1) {
          const from = ((row * stack + part) * width + column) * depth + k;
          observation[(row * width + column) * channels + part * depth + k] = pixels[from];
        }
  return observation;
}

/** The newest frame of an observation, as the server sends it. */
export function newestFrame(observation, { height, width, channels, stack }) {
  const depth = channels / stack;
  const newest = observation.filter((_, i) => i % channels >= channels - depth);
  const text = Array.from(newest, (byte) => String.fromCharCode(byte)).join("");
  return { shape: [height, width, depth], data: btoa(text) };
}

async function pngPixels(png, depth) {
  const options = /** @type {ImageBitmapOptions} */ ({ colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const bitmap = await createImageBitmap(new Blob([png], { type: "image/png" }), options);
  const canvas = new globalThis.OffscreenCanvas(bitmap.width, bitmap.height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return context.getImageData(0, 0, canvas.width, canvas.height).data.filter((_, i) => i % 4 < depth);
}

/**
 * Paint a box of an observation.
 *
 * @param {Uint8Array} observation (H, W, C), which is changed
 * @param {Size} size
 * @param {import("./edit.js").Box} painted
 * @param {Uint8Array | null} other observation that `frame` is taken from
 */
export function paint(observation, { height, width, channels }, { box, fill, color = [] }, other = null) {
  const [left, top, right, bottom] = box;
  const at = (row, column) => (row * width + column) * channels;
  const inBox = (row, column) => row >= top && row < bottom && column >= left && column < right;
  const around = fill === "surroundings" ? surroundings(observation, { height, width, channels }, box, inBox) : null;
  for (let row = top; row < bottom; row += 1)
    for (let column = left; column < right; column += 1)
      for (let k = 0; k < channels; k += 1) {
        const place = at(row, column) + k;
        observation[place] = around?.[k] ?? (other ? other[place] : color[k % color.length]);
      }
}

/** The median of each channel around a box; of the whole observation if the box is as large. */
function surroundings(observation, { height, width, channels }, box, inBox) {
  const [left, top, right, bottom] = box;
  const places = [];
  const collect = (rows, columns, fits) => {
    for (let row = rows[0]; row < rows[1]; row += 1)
      for (let column = columns[0]; column < columns[1]; column += 1)
        if (fits(row, column)) places.push((row * width + column) * channels);
  };
  const rows = [Math.max(0, top - RING), Math.min(height, bottom + RING)];
  collect(rows, [Math.max(0, left - RING), Math.min(width, right + RING)], (row, column) => !inBox(row, column));
  if (!places.length) collect([0, height], [0, width], () => true);
  return Array.from({ length: channels }, (_, k) => {
    const values = places.map((place) => observation[place + k]).sort((a, b) => a - b);
    const half = values.length >> 1;
    return Math.floor(values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2);
  });
}

/**
 * The observation blurred by matrices (H, H) of columns and (W, W) of rows.
 *
 * @param {Uint8Array} observation (H, W, C)
 * @param {Size} size
 */
export function blurred(observation, { height, width, channels }, down, across) {
  const mixed = new Float64Array(observation.length);
  const stride = width * channels;
  for (let row = 0; row < height; row += 1)
    for (let from = 0; from < height; from += 1) {
      const weight = down[row * height + from];
      if (weight)
        for (let i = 0; i < stride; i += 1) mixed[row * stride + i] += weight * observation[from * stride + i];
    }
  const result = new Float64Array(observation.length);
  for (let column = 0; column < width; column += 1)
    for (let from = 0; from < width; from += 1) {
      const weight = across[column * width + from];
      if (!weight) continue;
      for (let row = 0; row < height; row += 1)
        for (let k = 0; k < channels; k += 1)
          result[row * stride + column * channels + k] += weight * mixed[row * stride + from * channels + k];
    }
  return Uint8Array.from(result, roundedToEven);
}

/** As NumPy's `rint`. */
function roundedToEven(value) {
  const rounded = Math.round(value);
  return value % 1 === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

/**
 * The objects that a page's chunk can remove from observations, as rl_clarity/live/objects.py does.
 *
 * @param {any} arrays of the chunk
 * @param {string[]} types
 * @param {Size} size
 */
export function createRemovals(arrays, types, { height, width, channels }) {
  const { frame, track, type, box, mask, without } = arrays;
  const length = Math.ceil(width / 8);
  const isMasked = (i, row, column) => (mask[(i * height + row) * length + (column >> 3)] >> (7 - (column & 7))) & 1;
  const at = (step) => Array.from(frame.keys()).filter((i) => frame[i] === step);
  const pixels = (i) => {
    const places = [];
    for (let row = 0; row < height; row += 1)
      for (let column = 0; column < width; column += 1) if (isMasked(i, row, column)) places.push(row * width + column);
    return places;
  };
  const counts = Array.from(frame.keys(), (i) => pixels(i).length);
  const ends = counts.reduce((list, count) => [...list, list[list.length - 1] + count], [0]);

  return {
    /** {number, type, box} of each object that a step has. */
    listed: (step) =>
      at(step).map((i) => ({
        number: track[i] + 1,
        type: types[type[i]],
        box: Array.from(box.subarray(4 * i, 4 * i + 4)),
      })),
    /** Change an observation of a step to that without some objects. */
    remove(observation, step, numbers) {
      if (!arrays.frames.includes(step)) throw new Refusal(`The objects of step ${step + 1} were not measured.`);
      const covered = new Set();
      for (const number of numbers) {
        if (!track.includes(number - 1)) throw new Refusal(`This trajectory has no object ${number}.`);
        const i = at(step).find((one) => track[one] === number - 1);
        if (i === undefined) continue; // without it, the observation is the same
        const places = pixels(i);
        if (places.some((place) => covered.has(place)))
          throw new Refusal(
            `Object ${number} overlaps another object that is also removed. Remove only one of the two.`,
          );
        places.forEach((place, n) => {
          covered.add(place);
          const from = (ends[i] + n) * channels;
          observation.set(without.subarray(from, from + channels), place * channels);
        });
      }
    },
  };
}
