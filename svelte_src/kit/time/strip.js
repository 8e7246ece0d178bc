// The part of a track that is drawn in advance: it moves with time, and is redrawn near its ends.
// A view is that of draw.js; `from` and `to` are steps, a step reaching half a step to either side.
import { pixelsPerStep, stepToX } from "./draw.js";

const WINDOWS = 2;
const NEAR = 0.25;

/** What a strip around the view's center holds: the whole trajectory if it is not much longer than the view. */
export function stripAround({ center, visible, steps }) {
  const [first, last] = [-0.5, steps - 0.5];
  if (steps <= (WINDOWS + 1) * visible) return { from: first, to: last };
  const reach = (WINDOWS * visible) / 2;
  return { from: Math.max(first, center - reach), to: Math.min(last, center + reach) };
}

/** Whether a strip has to be drawn "now", as something of the view lies outside it, "soon", or not at all. */
export function redraw({ center, visible, steps }, { from, to }) {
  const [first, last] = [-0.5, steps - 0.5];
  const [left, right] = [Math.max(first, center - visible / 2), Math.min(last, center + visible / 2)];
  if (left < from || right > to) return "now";
  const near = NEAR * visible;
  return (from > first && left - from < near) || (to < last && to - right < near) ? "soon" : null;
}

/** The view that a strip is drawn with: its own length in time and pixels. */
export function stripView(view, { from, to }) {
  const width = (to - from) * pixelsPerStep(view);
  return { ...view, center: (from + to) / 2, visible: to - from, width };
}

/** Where a strip stands in the view, on whole pixels of the screen so that lines stay sharp. */
export function stripOffset(view, { from }, ratio = globalThis.devicePixelRatio || 1) {
  return Math.round(stepToX(view, from) * ratio) / ratio;
}

/** Runs tasks one by one while the browser is idle; a task that is already waiting is not added again. */
export function createQueue(request = whenIdle) {
  const tasks = new Set();
  let running = false;

  function next() {
    const [task] = tasks;
    tasks.delete(task);
    running = tasks.size > 0;
    if (running) request(next);
    task?.();
  }

  return {
    add(task) {
      tasks.add(task);
      if (!running) request(next);
      running = true;
    },
    remove: (task) => tasks.delete(task),
  };
}

const whenIdle = (task) =>
  "requestIdleCallback" in globalThis ? requestIdleCallback(task, { timeout: 100 }) : requestAnimationFrame(task);
