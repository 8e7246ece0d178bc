// What is drawn on the tracks of a checkpoint.
import { latest, memoized } from "../../data/cache.js";
import { SAFE_HUES } from "../../kit/image/colors.js";
import {
  drawBand,
  drawEnd,
  drawEvents,
  drawGraph,
  drawTaken,
  pixelsPerStep,
  stepToX,
  veil,
} from "../../kit/time/draw.js";
import { largest } from "../../kit/time/numbers.js";
import { drawHeat } from "./heat.js";
import { regionBoxes } from "./maps.js";

/**
 * What paints each kind of track, as functions of the ranges that brushes hold (null: all), the episode's steps, and what is
 * drawn. What brushes leave out is faint. Each returns the same function for the same arguments.
 */
export function painters() {
  const brushed = (draw) =>
    latest((bright, steps, ...drawn) => (context, axisView, tokens) => {
      const view = { ...axisView, steps };
      draw(context, view, tokens, ...drawn);
      veil(context, view, bright, tokens.surface);
    });
  const draws = {
    policy: drawPolicy,
    value: drawValue,
    moments: drawMoments,
    lines: drawLines,
    position: drawLines,
    heat: drawHeat,
  };
  return Object.fromEntries(Object.entries(draws).map(([name, draw]) => [name, brushed(draw)]));
}

/** Action probabilities stacked, the taken action, and cumulative reward on an axis of its own. */
function drawPolicy(context, view, tokens, { probabilities, actions }, colors, rewards, low, high) {
  if (probabilities) {
    drawBand(context, view, probabilities, colors);
    drawTaken(context, view, probabilities, actions.data);
  }
  const graph = { values: rewards, firsts: [], range: [low, high] };
  drawGraph(context, view, { ...graph, color: tokens.surface, wide: 4 });
  drawGraph(context, view, { ...graph, color: tokens.playhead, wide: 1.75 });
}

/** The value, with rewards, and a line where the episode ends. */
function drawValue(context, view, tokens, { rewards }, values, color, low, high) {
  drawEnd(context, view, tokens);
  if (values) drawGraph(context, view, { values, firsts: [], range: [low, high], color, zero: tokens.zero });
  drawEvents(context, view, { firsts: [], rewards: rewards.data, line: tokens.zero, ...tokens });
}

/** Pixels that a share of 0 or 1 stays from the edges. */
const PAD = 4;

/**
 * Lines from 0 to 1, some with a band from the smallest to the largest.
 *
 * @param {{mean: Float64Array, low?: Float64Array, high?: Float64Array, color: string}[]} lines a number for each map
 * @param {ArrayLike<number>} steps of the maps
 */
function drawLines(context, view, _tokens, lines, steps) {
  const toY = (share) => view.height - PAD - share * (view.height - 2 * PAD);
  const points = (values) => Array.from(values, (value, m) => [stepToX(view, steps[m]), toY(value)]);
  const trace = (path) => path.forEach(([x, y]) => context.lineTo(x, y));
  for (const { low, high, color } of lines) {
    if (!low) continue;
    context.fillStyle = color;
    context.globalAlpha = 0.18;
    context.beginPath();
    trace([...points(high), ...points(low).reverse()]);
    context.fill();
    context.globalAlpha = 1;
  }
  for (const { mean, color } of lines) {
    context.strokeStyle = color;
    context.lineWidth = 1.75;
    context.lineJoin = "round";
    context.beginPath();
    trace(points(mean));
    context.stroke();
  }
}

/** Pixels of a lane of moments and of a small grid in it. */
export const LANE = 14;
const GLYPH = 10;

/**
 * Steps at which a region's share passes the threshold, a lane for each region, as small images of the regions with that one
 * in its color; and dots at steps at which the policy is sure, in the color of the most likely action.
 */
function drawMoments(context, view, tokens, { probabilities }, hues, moments, method, regions, sure) {
  const boxes = method ? regionBoxes(method.centers, regions) : [];
  (moments ?? []).forEach((steps, k) => {
    let last = -Infinity;
    for (const step of steps) {
      const x = stepToX(view, step);
      const top = k * LANE + (LANE - GLYPH) / 2;
      context.fillStyle = SAFE_HUES[k];
      if (x - last < GLYPH + 1) {
        context.fillRect(x - 0.5, top, 1.5, GLYPH);
        continue;
      }
      last = x;
      drawGlyph(context, x - GLYPH / 2, top, boxes, k, SAFE_HUES[k], tokens);
    }
  });
  if (!probabilities) return;
  const y = (moments?.length ?? 0) * LANE + LANE / 2;
  const radius = Math.max(1, Math.min(3, pixelsPerStep(view) / 2));
  const likeliest = likeliestActions(probabilities);
  largest(probabilities).forEach((share, step) => {
    if (share <= sure) return;
    context.fillStyle = hues[likeliest[step]];
    context.beginPath();
    context.arc(stepToX(view, step), y, radius, 0, 7);
    context.fill();
  });
}

/** Each step's most likely action. */
const likeliestActions = memoized(({ data, shape: [steps, count] }) =>
  Array.from({ length: steps }, (_, t) => {
    const row = data.subarray(t * count, (t + 1) * count);
    return row.indexOf(Math.max(...row));
  }),
);

/** The regions, as small as a letter, with one of them filled. */
function drawGlyph(context, left, top, boxes, k, color, tokens) {
  const [y0, x0, y1, x1] = boundsOf(boxes);
  const toX = (x) => left + ((x - x0) / (x1 - x0)) * GLYPH;
  const toY = (y) => top + ((y - y0) / (y1 - y0)) * GLYPH;
  context.strokeStyle = tokens.line;
  context.lineWidth = 1;
  context.beginPath();
  context.rect(left + 0.5, top + 0.5, GLYPH - 1, GLYPH - 1);
  context.stroke();
  const [low, near, high, far] = boxes[k];
  context.fillStyle = color;
  context.fillRect(toX(near), toY(low), Math.max(2, toX(far) - toX(near)), Math.max(2, toY(high) - toY(low)));
}

const boundsOf = (boxes) => [0, 1, 2, 3].map((i) => Math[i < 2 ? "min" : "max"](...boxes.map((box) => box[i])));
