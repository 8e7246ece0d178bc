// Points of a scatter plot on a canvas.
import { rangeOf } from "../../data/series.js";

/** Pixels around the points. */
export const PAD = 10;
/** Opacity of points beside marked ones, of 255. */
const DIM = 46;

/** Functions from data to pixels. */
export function projection(x, y, width, height) {
  const [[left, right], [bottom, top]] = [rangeOf(x), rangeOf(y)];
  const [wide, high] = [width - 2 * PAD, height - 2 * PAD];
  return {
    toX: (value) => PAD + ((value - left) / (right - left)) * wide,
    toY: (value) => height - PAD - ((value - bottom) / (top - bottom)) * high,
  };
}

/** Shares of the points that are below and above most of them. */
const MOST = [0.05, 0.95];

/** The range of an axis without points that are farther from most of the others than these are from each other. */
export function centralRange(values) {
  const sorted = Float64Array.from(values).sort();
  const [low, high] = MOST.map((share) => sorted[Math.round(share * (sorted.length - 1))]);
  if (!(high > low)) return [sorted[0], sorted[sorted.length - 1]];
  return [Math.max(sorted[0], 2 * low - high), Math.min(sorted[sorted.length - 1], 2 * high - low)];
}

/**
 * Points of which the distant ones are moved to the border of the others.
 *
 * @param {ArrayLike<number>[]} axes positions x and y (n)
 * @returns {{axes: Float32Array[], distant: number}} `distant`: how many were moved
 */
export function withinBorder(axes) {
  const ranges = axes.map(centralRange);
  const moved = axes.map((values, a) =>
    Float32Array.from(values, (value) => Math.max(ranges[a][0], Math.min(ranges[a][1], value))),
  );
  const isDistant = (_, i) => moved.some((values, a) => values[i] !== axes[a][i]);
  return { axes: moved, distant: moved[0].filter(isDistant).length };
}

/** The index of the point (px, py, in pixels) nearest to a place, at most `reach` pixels away; -1 if there is none. */
export function nearestPoint(px, py, x, y, reach = 12) {
  let nearest = -1;
  let least = reach * reach;
  for (let i = 0; i < px.length; i += 1) {
    const distance = (px[i] - x) ** 2 + (py[i] - y) ** 2;
    if (distance <= least) [nearest, least] = [i, distance];
  }
  return nearest;
}

/** The corners of a rectangle, as an outline. */
export const rectangle = ([x0, y0], [x1, y1]) => [
  [x0, y0],
  [x1, y0],
  [x1, y1],
  [x0, y1],
];

/** Indices of the points (px, py, in pixels) inside an outline [[x, y]] (even-odd rule). */
export function pointsWithin(px, py, outline) {
  const inside = [];
  for (let i = 0; i < px.length; i += 1) {
    if (isInside(outline, px[i], py[i])) inside.push(i);
  }
  return inside;
}

function isInside(outline, px, py) {
  let within = false;
  let [x0, y0] = outline[outline.length - 1];
  for (const [x1, y1] of outline) {
    if (y1 > py !== y0 > py && px < ((x0 - x1) * (py - y1)) / (y0 - y1) + x1) within = !within;
    [x0, y0] = [x1, y1];
  }
  return within;
}

/** Indices of each trajectory's points, in order of time. @returns {Map<number, number[]>} */
export function pointsByTrajectory({ trajectory, frame }) {
  const all = new Map();
  trajectory.forEach((at, i) => {
    if (all.has(at)) all.get(at).push(i);
    else all.set(at, [i]);
  });
  for (const indices of all.values()) indices.sort((a, b) => frame[a] - frame[b]);
  return all;
}

/** The point of a frame, or the last one before it, as not every step may have one; -1 if there is none. */
export function pointAt(indices = [], frames, frame) {
  let [low, high] = [0, indices.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (frames[indices[middle]] <= frame) low = middle + 1;
    else high = middle;
  }
  return low ? indices[low - 1] : -1;
}

/** Those of a trajectory's points that are in the episode of one of them; `times` (n) begin again in each episode. */
export function pathAround(indices = [], times, point) {
  const at = indices.indexOf(point);
  if (at < 0) return [];
  const begins = (k) => times !== undefined && times[indices[k]] < times[indices[k - 1]];
  let first = at;
  while (first > 0 && !begins(first)) first -= 1;
  let end = at + 1;
  while (end < indices.length && !begins(end)) end += 1;
  return indices.slice(first, end);
}

/**
 * Paint points as discs into an image; those that are not marked are faint, and below the others.
 *
 * @param {Uint32Array} pixels of an image that is `width` pixels wide, cleared
 * @param {number} width
 * @param {{px: ArrayLike<number>, py: ArrayLike<number>, colors: Uint32Array, marked: Uint8Array | null, radius: number,
 *   ratio?: number}} points positions (n) in pixels of the screen, and how many of the image's these are (`ratio`); `radius` is in
 *   those of the screen, too; colors (n), as `packed` returns them; marked (n)
 */
export function paintPoints(pixels, width, { px, py, colors, marked, radius, ratio = 1 }) {
  const height = pixels.length / width;
  const reach = Math.ceil(radius * ratio);
  const offsets = [];
  for (let dy = -reach; dy <= reach; dy += 1) {
    for (let dx = -reach; dx <= reach; dx += 1) if (Math.hypot(dx, dy) <= radius * ratio) offsets.push([dx, dy]);
  }
  for (const on of marked ? [0, 1] : [1]) {
    for (let i = 0; i < colors.length; i += 1) {
      if (marked && marked[i] !== on) continue;
      const color = on ? colors[i] : ((colors[i] & 0xffffff) | (DIM << 24)) >>> 0;
      const [x, y] = [Math.round(px[i] * ratio), Math.round(py[i] * ratio)];
      for (const [dx, dy] of offsets) {
        const [column, row] = [x + dx, y + dy];
        if (column >= 0 && column < width && row >= 0 && row < height) pixels[row * width + column] = color;
      }
    }
  }
}
