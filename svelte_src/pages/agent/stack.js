// The decomposition of an output over time, drawn as a stack.
import { firstVisible, lastVisible, pixelsPerStep, stepToX } from "../../kit/time/draw.js";
import { partsOf, stackRange } from "./decomposition.js";

const FAINT = 0.15;

/**
 * Draw a stack along time: from the baseline, parts that raise the output upwards and those that lower it downwards.
 *
 * @param {object} options
 * @param {import("../../data/decomposition.js").Decomposition} options.decomposition
 * @param {(string | null)[]} options.colors of the features
 * @param {number | null} [options.alone] the channel of the only part that is not faint
 * @param {boolean[]} [options.incomplete] at which steps everything is hatched
 * @param {{ink: string, line: string}} options.tokens
 */
export function drawStack(context, view, { decomposition, colors, alone = null, incomplete = [], tokens }) {
  const [low, high] = stackRange(decomposition);
  const pad = 3;
  const toY = (value) => view.height - pad - ((value - low) / (high - low)) * (view.height - 2 * pad);
  const stride = Math.max(1, Math.floor(1 / pixelsPerStep(view)));
  const steps = [];
  for (let t = firstVisible(view); t <= lastVisible(view); t += stride) steps.push(t);
  const fills = {
    residual: hatch(context, tokens),
    memory: tokens.ink,
    completeness_error: tokens.line,
    start: tokens.line,
  };
  const uncertain = hatch(context, tokens, true);
  const ups = steps.map((t) => decomposition.baseline[t]);
  const downs = [...ups];
  for (const { name, channel, values } of partsOf(decomposition)) {
    const fill = fills[name] ?? colors[channel] ?? tokens.line;
    context.globalAlpha = alone === null || alone === channel ? (name === "memory" ? 0.5 : 1) : FAINT;
    steps.forEach((t, i) => {
      context.fillStyle = incomplete[t] ? uncertain : fill;
      const ends = values[t] > 0 ? ups : downs;
      const [from, to] = [toY(ends[i]), toY(ends[i] + values[t])];
      ends[i] += values[t];
      const left = stepToX(view, t - 0.5);
      const right = stepToX(view, t + stride - 0.5);
      context.fillRect(left, Math.min(from, to), right - left, Math.abs(to - from));
    });
  }
  context.globalAlpha = 1;
  drawLevels(context, view, steps, decomposition.baseline, toY, { color: tokens.ink, dash: [3, 3], width: 1 });
  drawLevels(context, view, steps, decomposition.output, toY, { color: tokens.ink, dash: [], width: 1.75 });
}

function drawLevels(context, view, steps, values, toY, { color, dash, width }) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  steps.forEach((t, i) => context[i ? "lineTo" : "moveTo"](stepToX(view, t), toY(values[t])));
  context.stroke();
  context.setLineDash([]);
}

/** Diagonal lines, as in the legend; falling ones where the completeness error is too large. */
export function hatch(context, { ink }, falling = false) {
  const tile = document.createElement("canvas");
  Object.assign(tile, { width: 6, height: 6 });
  const inner = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  inner.strokeStyle = ink;
  inner.lineWidth = 1.5;
  inner.beginPath();
  for (const offset of [-6, 0, 6]) {
    inner.moveTo(offset, falling ? 0 : 6);
    inner.lineTo(offset + 6, falling ? 6 : 0);
  }
  inner.stroke();
  return context.createPattern(tile, "repeat");
}
