// Drawing of the timeline's tracks. A view is {frame, center, visible, width, height, steps}:
// `visible` steps around `center`, and the frame that is shown.
import { memoized, recent } from "../../data/cache.js";
import { polylines, pushExtremes, pushMean, stackedEdges } from "../../data/series.js";

/** What a track of `visible` steps shows: a trajectory that is not longer as a whole, else the steps around the frame. */
export const axis = ({ frame, visible, steps }) =>
  steps <= visible ? { center: (steps - 1) / 2, visible: steps } : { center: frame, visible };

export const pixelsPerStep = (view) => view.width / view.visible;
export const stepToX = (view, step) => view.width / 2 + (step - view.center) * pixelsPerStep(view);
export const xToStep = (view, x) => view.center + (x - view.width / 2) / pixelsPerStep(view);
export const firstVisible = (view) => Math.max(0, Math.floor(xToStep(view, 0)));
export const lastVisible = (view) => Math.min(view.steps - 1, Math.ceil(xToStep(view, view.width)));

/** Fit a canvas to its box at the screen's resolution and clear it. @returns {CanvasRenderingContext2D} */
export function prepare(canvas, width, height, ratio = globalThis.devicePixelRatio || 1) {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Scrub images that a view shows at most, so that a long episode is not loaded as a whole. */
const MOST_PARTS = 64;

/**
 * The scrub images, of `perImage` steps each, that a view shows; of many, every n-th, which stands for those up to the next.
 *
 * @returns {{index: number, start: number, count: number}[]} with the steps that each is drawn over
 */
export function filmParts(view, perImage) {
  const [first, last] = [firstVisible(view), lastVisible(view)].map((step) => Math.floor(step / perImage));
  const apart = Math.max(1, 2 ** Math.ceil(Math.log2((last - first + 1) / MOST_PARTS)));
  const from = Math.floor(first / apart);
  return Array.from({ length: Math.max(0, Math.floor(last / apart) - from + 1) }, (_, i) => {
    const start = (from + i) * apart * perImage;
    return { index: (from + i) * apart, start, count: Math.min(apart * perImage, view.steps - start) };
  });
}

/** The strip of every step, from the scrub images that are loaded. */
export function drawFilm(context, view, images, perImage) {
  const unit = pixelsPerStep(view);
  context.imageSmoothingEnabled = true;
  for (const { index, start, count } of filmParts(view, perImage)) {
    const image = images[index];
    if (!image) continue;
    const x = stepToX(view, start - 0.5);
    context.drawImage(image, 0, 0, image.naturalWidth, image.naturalHeight, x, 0, count * unit, view.height);
  }
}

/**
 * A graph of numbers, broken where episodes begin, within [low, high]. Where several steps share a pixel, it is their mean, over
 * a fainter area from the smallest to the largest.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {any} view
 * @param {{values: ArrayLike<number>, firsts: ArrayLike<number>, range: number[], color: string, zero?: string, wide?: number, points?: boolean}} graph
 *   `zero`: color of a line at 0; `points`: whether each number is marked
 */
export function drawGraph(
  context,
  view,
  { values, firsts, range: [low, high], color, zero, wide = 1.5, points: marked },
) {
  const pad = 4;
  const toY = (value) => view.height - pad - ((value - low) / (high - low)) * (view.height - 2 * pad);
  if (zero && low < 0 && high > 0) drawLevel(context, view, toY(0), zero);
  context.strokeStyle = color;
  context.fillStyle = color;
  context.lineWidth = wide;
  context.lineJoin = "round";
  const unit = pixelsPerStep(view);
  const trace = (push) => {
    context.beginPath();
    for (const points of polylines(values, firsts, firstVisible(view) - 1, lastVisible(view) + 1, unit, push)) {
      context.moveTo(stepToX(view, points[0]), toY(points[1]));
      for (let i = 2; i < points.length; i += 2) context.lineTo(stepToX(view, points[i]), toY(points[i + 1]));
      if (points.length === 2) context.rect(stepToX(view, points[0]) - 0.75, toY(points[1]) - 0.75, 1.5, 1.5);
    }
    context.stroke();
  };
  if (unit <= 0.5) {
    context.globalAlpha = 0.35;
    trace(pushExtremes);
    context.globalAlpha = 1;
    trace(pushMean);
  } else trace(pushExtremes);
  if (!marked) return;
  for (let t = firstVisible(view); t <= lastVisible(view); t += 1)
    if (Number.isFinite(values[t])) context.fillRect(stepToX(view, t) - 2.5, toY(values[t]) - 2.5, 5, 5);
}

function drawLevel(context, view, y, color) {
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  context.beginPath();
  context.moveTo(stepToX(view, firstVisible(view)), Math.round(y) + 0.5);
  context.lineTo(stepToX(view, lastVisible(view)), Math.round(y) + 0.5);
  context.stroke();
  context.setLineDash([]);
}

const BAND_HEIGHT = 64;
const BAND_COLUMNS = 8192;

/** Probabilities of the actions, stacked: the whole trajectory is painted once, then moved and stretched. */
export function drawBand(context, view, probabilities, colors) {
  const band = bandImage(probabilities, colors);
  const unit = pixelsPerStep(view);
  context.imageSmoothingEnabled = unit < 1;
  context.drawImage(band, stepToX(view, -0.5), 0, view.steps * unit, view.height);
}

const bandImage = memoized(({ data, shape: [steps, count] }, colors) => {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.min(steps, BAND_COLUMNS), height: BAND_HEIGHT });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  for (let column = 0; column < canvas.width; column += 1) {
    const edges = stackedEdges(data, count, Math.floor((column * steps) / canvas.width));
    for (let k = 0; k < count; k += 1) {
      const [top, bottom] = [edges[k], edges[k + 1]].map((edge) => Math.round(edge * BAND_HEIGHT));
      context.fillStyle = colors[k];
      context.fillRect(column, top, 1, bottom - top);
    }
  }
  return canvas;
});

/** Vertical lines where episodes begin, with edges over images, and ticks for rewards. */
export function drawEvents(context, view, { firsts, rewards, line, edge, positive, negative }) {
  const from = firstVisible(view);
  const to = lastVisible(view);
  for (let t = Math.max(1, from); t <= to; t += 1) {
    if (firsts[t]) {
      const x = Math.floor(stepToX(view, t - 0.5));
      context.fillStyle = edge ?? line;
      context.fillRect(edge ? x - 1 : x, 0, edge ? 3 : 1, view.height);
      context.fillStyle = line;
      context.fillRect(x, 0, 1, view.height);
    }
  }
  if (!rewards) return;
  for (let t = from; t <= to; t += 1) {
    if (!rewards[t]) continue;
    context.fillStyle = rewards[t] > 0 ? positive : negative;
    const x = stepToX(view, t);
    const [base, tip] = rewards[t] > 0 ? [view.height, view.height - 8] : [0, 8];
    context.beginPath();
    context.moveTo(x - 4, base);
    context.lineTo(x + 4, base);
    context.lineTo(x, tip);
    context.fill();
  }
}

/** Ticks and bars at the top for ranges [first, last] of steps that are marked. */
export function drawMarks(context, view, ranges, color) {
  context.fillStyle = color;
  for (const [first, last] of ranges) {
    const [from, to] = [stepToX(view, first), stepToX(view, last)];
    if (to >= 0 && from <= view.width) context.fillRect(from - 1, 0, to - from + 2, 7);
  }
}

/** Cover the steps that brushes leave out. @param {number[][] | null} ranges those that they hold; null: all */
export function veil(context, view, ranges, surface) {
  if (!ranges) return;
  context.fillStyle = surface;
  context.globalAlpha = 0.72;
  let from = -0.5;
  for (const [first, last] of [...ranges, [view.steps, view.steps]]) {
    const [left, right] = [stepToX(view, from), stepToX(view, first - 0.5)];
    if (right > left) context.fillRect(left, 0, right - left, view.height);
    from = last + 0.5;
  }
  context.globalAlpha = 1;
}

/** A white dot in the middle of the taken action's part, or a line where steps are narrow. */
export function drawTaken(context, view, { data, shape: [, count] }, actions) {
  const unit = pixelsPerStep(view);
  const wide = Math.max(1, Math.min(5, unit - 1));
  for (let t = firstVisible(view); t <= lastVisible(view); t += 1) {
    let above = 0;
    for (let k = 0; k < actions[t]; k += 1) above += data[t * count + k];
    const middle = (above + data[t * count + actions[t]] / 2) * view.height;
    for (const edge of [1, 0]) {
      context.fillStyle = edge ? "#000000" : "#ffffff";
      context.fillRect(stepToX(view, t) - wide / 2 - edge, middle - 1.5 - edge, wide + 2 * edge, 3 + 2 * edge);
    }
  }
}

const WORD = { font: "12px system-ui, sans-serif", textBaseline: "middle" };
const WORD_HEIGHT = 16;
const WORD_PAD = 10;

/** A word on a canvas of its own, drawn once: text on a canvas makes the browser lay out the whole page. */
const wordImage = recent(
  ({ word, color, ratio }) => {
    const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    Object.assign(context, WORD);
    const width = Math.ceil(ratio * context.measureText(word).width);
    Object.assign(context.canvas, { width, height: Math.ceil(ratio * WORD_HEIGHT) });
    context.scale(ratio, ratio);
    Object.assign(context, WORD, { fillStyle: color }); // a new size has reset them
    context.fillText(word, 0, WORD_HEIGHT / 2);
    return context.canvas;
  },
  ({ word, color, ratio }) => [word, color, ratio],
  4,
);

/** Words beyond the ends of a trajectory, where there is room for them. */
export function drawEnds(context, view, color, ratio = globalThis.devicePixelRatio || 1) {
  const [first, last] = [stepToX(view, -0.5), stepToX(view, view.steps - 0.5)];
  drawWord(context, view, { word: "start", color, ratio }, first, (width) => first - WORD_PAD - width);
  drawWord(context, view, { word: "end", color, ratio }, view.width - last, () => last + WORD_PAD);
}

function drawWord(context, view, word, room, left) {
  if (room <= 2 * WORD_PAD) return;
  const image = wordImage(word);
  const [width, height] = [image.width / word.ratio, image.height / word.ratio];
  if (room < width + 2 * WORD_PAD) return;
  const [x, y] = [left(width), (view.height - WORD_HEIGHT) / 2].map((at) => Math.round(at * word.ratio) / word.ratio);
  context.drawImage(image, x, y, width, height);
}

/** A line where an episode ends. */
export function drawEnd(context, view, tokens) {
  context.fillStyle = tokens.line;
  const x = Math.round(stepToX(view, view.steps - 0.5));
  context.fillRect(x, 0, 2, view.height);
}
