// A Svelte action: drag, click, wheel and hover on a track.
import { dragging } from "../shell/drag.js";
import { xToStep } from "./draw.js";

/**
 * @param {HTMLElement} node
 * @param {{view: object, wheel: boolean, onFrame: (frame: number) => void, onHover: (step: number | null) => void,
 *   onZoom: (factor: number) => void, onRange: ((first: number, last: number) => void) | null}} options `onRange`: called
 *   while a range is dragged, where that does not move time
 */
export function scrub(node, options) {
  let current = options;
  /** the step in the middle of the view where a drag began */
  let center = 0;
  const stepAt = ({ x }) =>
    Math.max(0, Math.min(current.view.steps - 1, Math.round(xToStep(current.view, x - node.clientLeft))));

  function hover({ x }) {
    const step = Math.round(xToStep(current.view, x - node.clientLeft));
    current.onHover(step >= 0 && step < current.view.steps ? step : null);
  }

  function drag(point, start) {
    if (current.onRange) {
      const [first, last] = [stepAt(start), stepAt(point)].sort((a, b) => a - b);
      return current.onRange(first, last);
    }
    const { view } = current;
    const whole = view.visible >= view.steps; // the line follows the pointer, otherwise the strip does
    const x = point.x - node.clientLeft;
    current.onFrame(Math.round(whole ? xToStep(view, x) : center - ((point.x - start.x) * view.visible) / view.width));
  }

  const drags = {
    start: () => (center = current.view.center),
    move: (point, dragged) => dragged || hover(point),
    drag,
    click: (start) => current.onFrame(stepAt(start)),
  };
  const leave = () => current.onHover(null);

  function wheel(event) {
    if (event.ctrlKey || event.altKey) {
      event.preventDefault();
      current.onZoom(event.deltaY > 0 ? 1.25 : 0.8);
      return;
    }
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.shiftKey && !current.wheel) return; // the page scrolls
    event.preventDefault();
    const delta = sideways ? event.deltaX : event.deltaY;
    const steps = Math.max(1, Math.round((Math.abs(delta) * current.view.visible) / current.view.width / 4));
    current.onFrame(current.view.frame + Math.sign(delta) * steps);
  }

  const { destroy } = dragging(node, drags);
  node.addEventListener("pointerleave", leave);
  node.addEventListener("wheel", wheel, { passive: false });
  return {
    update(next) {
      current = next;
    },
    destroy() {
      destroy();
      node.removeEventListener("pointerleave", leave);
      node.removeEventListener("wheel", wheel);
    },
  };
}
