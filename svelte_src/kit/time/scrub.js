// A Svelte action: drag, click, wheel and hover on a track.
import { xToStep } from "./draw.js";

const CLICK_PIXELS = 4;

/**
 * @param {HTMLElement} node
 * @param {{view: object, wheel: boolean, onFrame: (frame: number) => void, onHover: (step: number | null) => void,
 *   onZoom: (factor: number) => void, onRange: ((first: number, last: number) => void) | null}} options `onRange`: called
 *   while a range is dragged, where that does not move time
 */
export function scrub(node, options) {
  let current = options;
  let drag = null;
  const localX = (event) => event.clientX - node.getBoundingClientRect().left - node.clientLeft;

  const stepAt = (x) => Math.max(0, Math.min(current.view.steps - 1, Math.round(xToStep(current.view, x))));

  function down(event) {
    if (event.button !== 0) return;
    const x = localX(event);
    drag = { x, center: current.view.center, start: stepAt(x), moved: false };
    node.setPointerCapture(event.pointerId);
  }

  function move(event) {
    const x = localX(event);
    if (!drag) return current.onHover(inside(Math.round(xToStep(current.view, x))));
    if (Math.abs(x - drag.x) > CLICK_PIXELS) drag.moved = true;
    if (!drag.moved) return;
    if (current.onRange) return current.onRange(...[drag.start, stepAt(x)].sort((a, b) => a - b));
    const { view } = current;
    const whole = view.visible >= view.steps; // the line follows the pointer, otherwise the strip does
    current.onFrame(Math.round(whole ? xToStep(view, x) : drag.center - ((x - drag.x) * view.visible) / view.width));
  }

  function up(event) {
    if (drag && !drag.moved) {
      current.onFrame(stepAt(localX(event)));
    }
    drag = null;
  }

  const inside = (step) => (step >= 0 && step < current.view.steps ? step : null);
  const leave = () => current.onHover(null);
  const cancel = () => (drag = null);

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

  const listeners = { pointerdown: down, pointermove: move, pointerup: up, pointercancel: cancel, pointerleave: leave };
  for (const [type, listener] of Object.entries(listeners)) node.addEventListener(type, listener);
  node.addEventListener("wheel", wheel, { passive: false });
  return {
    update(next) {
      current = next;
    },
    destroy() {
      for (const [type, listener] of Object.entries(listeners)) node.removeEventListener(type, listener);
      node.removeEventListener("wheel", wheel);
    },
  };
}
