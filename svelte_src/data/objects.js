// Measured effects of objects: what the section `objects` and its chunks say (docs/page-format.md).
import { memoized } from "./cache.js";
import { questionSeries } from "./questions.js";

/** Margin around an object's box, as a share of the observation, that sums of attribution include: that of `agreement.py`. */
const MARGIN = 1 / 32;

/** @typedef {{left: number, top: number, right: number, bottom: number}} Area shares of the observation's width and height */

/** @returns {import("./sections").ObjectsSection | null} the section's data; null on pages without it */
export const objectsOf = memoized(({ others = [] }) => others.find(({ kind }) => kind === "objects")?.data ?? null);

/** The name of the chunk about a trajectory; null without one. */
export const objectsChunk = (manifest, trajectory) => objectsOf(manifest)?.trajectories[trajectory]?.chunk ?? null;

/** The name of an object along a trajectory, and whether it ended an episode there. */
export const objectName = (type, track, { ended = [] }) =>
  `${type} ${track + 1}${ended.some((one) => one.track === track) ? ", ended the episode" : ""}`;

/** The measured frame that is nearest to a frame; null if there is none. */
export function nearestFrame({ frames }, frame) {
  let nearest = null;
  for (const at of frames.data) if (nearest === null || Math.abs(at - frame) < Math.abs(nearest - frame)) nearest = at;
  return nearest;
}

/**
 * The effect of each removal on an output: the output with the objects less the output without them.
 *
 * A question's weights of the logits are those of the policy with the objects, as in its attribution.
 *
 * @param {object} arrays of a chunk
 * @param {object} output or question
 * @param {object | null} series arrays along the trajectory; questions need them
 * @param {"" | "together."} [prefix] removals of one object each, or of all objects of a type
 * @returns {ArrayLike<number> | null} null where the page does not have them, or not yet
 */
export function effectsOn(arrays, output, series, prefix = "") {
  const stored = arrays[`${prefix}effect.${output.id}`];
  if (stored) return stored.data;
  const changes = arrays[`${prefix}logits`];
  if (output.kind !== "question" || !series?.logits) return null;
  const frames = arrays[`${prefix}frame`].data;
  const atFrames = ({ data, shape: [, width = 1] }) => ({
    data: Float64Array.from(
      { length: frames.length * width },
      (_, i) => data[frames[Math.floor(i / width)] * width + (i % width)],
    ),
    shape: [frames.length, width],
  });
  const kept = ["actions", "probabilities", "logits"].filter((key) => series[key]);
  const seen = Object.fromEntries(kept.map((key) => [key, atFrames(series[key])]));
  const logits = { ...seen.logits, data: seen.logits.data.map((logit, i) => logit - changes.data[i]) };
  const [before, after] = [seen, { ...seen, logits }].map((one) => questionSeries(one, output) ?? []);
  return before.map((value, i) => value - after[i]);
}

/** Where an object is. @returns {Area} */
export function areaOf({ box }, i, { width, height }) {
  const [left, top, right, bottom] = box.data.subarray(4 * i, 4 * i + 4);
  return { left: left / width, top: top / height, right: right / width, bottom: bottom / height };
}

/** An area of the observation as one of the frame, of which the observation shows a part; clipped to this part. */
export function areaInFrame(area, { region = [0, 0, 1, 1] }) {
  const [top, left, bottom, right] = region;
  const within = (share, low, high) => low + (high - low) * Math.max(0, Math.min(1, share));
  return {
    left: within(area.left, left, right),
    top: within(area.top, top, bottom),
    right: within(area.right, left, right),
    bottom: within(area.bottom, top, bottom),
  };
}

/**
 * The sum of a frame's values over all channels, in areas and the margin around them; a cell counts by the share of it that lies in
 * the area that has most of it.
 *
 * @param {{data: ArrayLike<number>, depth: number}} values
 * @param {{height: number, width: number}} grid
 * @param {Area[]} areas
 */
export function sumInAreas({ data, depth }, { height, width }, areas) {
  const overlap = (low, high, count) =>
    Array.from(
      { length: count },
      (_, i) => Math.max(0, Math.min(high + MARGIN, (i + 1) / count) - Math.max(low - MARGIN, i / count)) * count,
    );
  const weights = new Float64Array(height * width);
  for (const { left, top, right, bottom } of areas) {
    const [rows, columns] = [overlap(top, bottom, height), overlap(left, right, width)];
    weights.forEach((weight, at) => {
      weights[at] = Math.max(weight, rows[Math.floor(at / width)] * columns[at % width]);
    });
  }
  let sum = 0;
  for (let i = 0; i < height * width * depth; i += 1) sum += weights[Math.floor(i / depth)] * data[i];
  return sum;
}

/**
 * What was removed in a frame: each object, those with the largest effect first, then all objects of each type of which there are
 * several.
 *
 * @param {object} arrays of a chunk
 * @param {string[]} types names by number
 * @param {number} frame
 * @param {{single: ArrayLike<number> | null, together: ArrayLike<number> | null}} effects on the output
 * @returns {{type: string, count: number, effect: number | null, policy: number, track?: number, offset?: number[], objects: number[]}[]}
 *   `objects`: indices in the chunk
 */
export function removalsAt(arrays, types, frame, { single, together }) {
  const here = (name) => [...arrays[name].data.keys()].filter((i) => arrays[name].data[i] === frame);
  const objects = here("frame").map((i) => ({
    type: types[arrays.type.data[i]],
    count: 1,
    effect: single?.[i] ?? null,
    policy: arrays.policy.data[i],
    track: arrays.track.data[i],
    offset: [...arrays.offset.data.subarray(2 * i, 2 * i + 2)],
    objects: [i],
  }));
  const whole = here("together.frame").map((i) => {
    const type = types[arrays["together.type"].data[i]];
    // Those that are in view: the count of the chunk has others, too.
    const same = objects.filter((one) => one.type === type).flatMap((one) => one.objects);
    return {
      type,
      count: same.length,
      effect: together?.[i] ?? null,
      policy: arrays["together.policy"].data[i],
      objects: same,
    };
  });
  return [...bySize(objects), ...bySize(whole.filter(({ count }) => count > 1))];
}

const sizeOf = ({ effect, policy }) => Math.abs(effect ?? policy);
const bySize = (list) => [...list].sort((a, b) => sizeOf(b) - sizeOf(a));

/**
 * The frames in which objects of a type were removed, each with the object that has the largest effect, the largest first.
 *
 * @param {{trajectory: number, arrays: object, types: string[], effects: ArrayLike<number>}[]} measured
 * @param {string} type
 * @returns {{trajectory: number, frame: number, effect: number, track: number}[]}
 */
export function framesOfType(measured, type) {
  const frames = new Map();
  for (const { trajectory, arrays, types, effects } of measured) {
    const number = types.indexOf(type);
    arrays.type.data.forEach((one, i) => {
      if (one !== number) return;
      const entry = { trajectory, frame: arrays.frame.data[i], effect: effects[i], track: arrays.track.data[i] };
      const key = `${trajectory}/${entry.frame}`;
      if (!(Math.abs(frames.get(key)?.effect) >= Math.abs(entry.effect))) frames.set(key, entry);
    });
  }
  return [...frames.values()].sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
}

/**
 * An object's numbers along the trajectory: each holds until the next measured frame, and is missing where the object was not
 * removed.
 *
 * @param {object} arrays of a chunk
 * @param {number} track the object's
 * @param {ArrayLike<number>} numbers of all removals
 * @param {number} steps
 * @returns {{values: Float32Array, firsts: Uint8Array}} `firsts`: 1 where the object comes into view
 */
export function alongTrack(arrays, track, numbers, steps) {
  const at = new Map();
  arrays.track.data.forEach((one, i) => one === track && at.set(arrays.frame.data[i], numbers[i]));
  const values = new Float32Array(steps).fill(NaN);
  const firsts = new Uint8Array(steps);
  const frames = arrays.frames.data;
  frames.forEach((frame, n) => {
    if (!at.has(frame)) return;
    values.fill(at.get(frame), frame, frames[n + 1] ?? steps);
    if (!at.has(frames[n - 1])) firsts[frame] = 1;
  });
  return { values, firsts };
}
