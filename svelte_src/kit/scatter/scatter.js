// Points of a scatter plot on a canvas.
import { rangeOf } from "../../data/series.js";

const PAD = 10;

/** Functions from data to pixels, and back. */
export function projection(x, y, width, height) {
  const [[left, right], [bottom, top]] = [rangeOf(x), rangeOf(y)];
  const [wide, high] = [width - 2 * PAD, height - 2 * PAD];
  return {
    toX: (value) => PAD + ((value - left) / (right - left)) * wide,
    toY: (value) => height - PAD - ((value - bottom) / (top - bottom)) * high,
  };
}

/** The index of the point nearest to a pixel, at most `reach` pixels away; -1 if there is none. */
export function nearestPoint(x, y, { toX, toY }, px, py, reach = 12) {
  let nearest = -1;
  let least = reach * reach;
  for (let i = 0; i < x.length; i += 1) {
    const distance = (toX(x[i]) - px) ** 2 + (toY(y[i]) - py) ** 2;
    if (distance <= least) [nearest, least] = [i, distance];
  }
  return nearest;
}

/** Indices of the points in a rectangle of pixels. */
export function pointsWithin(x, y, { toX, toY }, { x0, y0, x1, y1 }) {
  const [left, right] = [Math.min(x0, x1), Math.max(x0, x1)];
  const [top, bottom] = [Math.min(y0, y1), Math.max(y0, y1)];
  const inside = (i) => {
    const [px, py] = [toX(x[i]), toY(y[i])];
    return left <= px && px <= right && top <= py && py <= bottom;
  };
  return Array.from(x.keys()).filter(inside);
}
