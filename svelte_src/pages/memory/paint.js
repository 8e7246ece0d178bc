// What the tracks of this page draw.
import { memoized } from "../../data/cache.js";
import { column } from "../../data/series.js";
import { categoryColor } from "../../kit/scatter/palette.js";
import { pixelsPerStep, stepToX } from "../../kit/time/draw.js";

/** A direction's coordinates along an episode, in standard deviations. @param {string} key "DIRECTION SCALE" */
export const inDeviations = memoized(({ coordinates }, key) => {
  const [direction, scale] = key.split(" ").map(Number);
  return column(coordinates, direction).map((value) => value / (scale || 1));
});

/** Labels of steps (T) as shares (T, count) of a band; -1 has none. */
export const labelBand = memoized((labels) => {
  const count = 1 + labels.reduce((most, label) => Math.max(most, label), 0);
  const data = new Float32Array(labels.length * count);
  labels.forEach((label, t) => {
    if (label >= 0) data[t * count + label] = 1;
  });
  return { data, shape: [labels.length, count] };
});

/** Colors of labels, as on the state map: the same array for the same band. */
export const labelColors = memoized(({ shape: [, count] }) =>
  Array.from({ length: count }, (_, label) => categoryColor(label)),
);

const LANES = 3;
const GAP = 2;

/** Bars for an episode's windows, in lanes so that they do not hide each other, and marks for explained steps. */
export function drawWindows(context, view, windows, { trajectory, shown, tokens }) {
  const unit = pixelsPerStep(view);
  const lane = (view.height - GAP) / LANES;
  const free = new Array(LANES).fill(-Infinity);
  windows.forEach((window, i) => {
    if (window.trajectory !== trajectory) return;
    const at = Math.max(
      0,
      free.findIndex((end) => end < window.first),
    );
    free[at] = window.frame;
    const [left, right] = [stepToX(view, window.first - 0.5), stepToX(view, window.frame + 0.5)];
    const top = GAP + at * lane;
    context.fillStyle = i === shown ? tokens.mark : tokens.line;
    context.globalAlpha = i === shown ? 0.75 : 0.35;
    context.fillRect(left, top, right - left, lane - GAP);
    context.globalAlpha = 1;
    context.fillRect(right - Math.max(3, unit), top, Math.max(3, unit), lane - GAP);
  });
}
