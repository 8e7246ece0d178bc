// A Svelte action: drags over an element, and clicks, which are drags that stay where they began.

const CLICK_PIXELS = 4;

/**
 * @typedef {object} Point
 * @property {number} x pixels from the element's left
 * @property {number} y pixels from its top
 * @property {{x: number, y: number}} share the same as shares of its size, in 0..1
 *
 * @typedef {object} Listeners what of it is reported; each may be missing
 * @property {(event: PointerEvent) => boolean} [accepts] whether a press of the first button begins a drag
 * @property {(start: Point) => void} [start]
 * @property {(point: Point, dragged: boolean) => void} [move] also while nothing is dragged
 * @property {(point: Point, start: Point) => void} [drag] once the pointer has left the place of a click
 * @property {(point: Point, start: Point) => void} [end]
 * @property {(start: Point, event: PointerEvent) => void} [click]
 * @property {() => void} [cancel]
 * @property {boolean} [exclusive] whether the browser's own response to a press, such as selecting text, is prevented
 */

/**
 * @param {HTMLElement | SVGElement} node
 * @param {Listeners} listeners
 */
export function dragging(node, listeners) {
  let current = listeners;
  let start = null;
  let moved = false;

  function at({ clientX, clientY }) {
    const { left, top, width, height } = node.getBoundingClientRect();
    const [x, y] = [clientX - left, clientY - top];
    const within = (share) => Math.max(0, Math.min(1, share));
    return { x, y, share: { x: within(x / width), y: within(y / height) } };
  }

  function down(event) {
    if (event.button !== 0 || !(current.accepts?.(event) ?? true)) return;
    if (current.exclusive) event.preventDefault();
    node.setPointerCapture(event.pointerId);
    [start, moved] = [at(event), false];
    current.start?.(start);
  }

  function move(event) {
    const point = at(event);
    if (start) moved ||= Math.max(Math.abs(point.x - start.x), Math.abs(point.y - start.y)) > CLICK_PIXELS;
    current.move?.(point, start !== null);
    if (start && moved) current.drag?.(point, start);
  }

  function up(event) {
    if (!start) return;
    const from = start;
    start = null;
    if (moved) current.end?.(at(event), from);
    else current.click?.(from, event);
  }

  function cancel() {
    start = null;
    current.cancel?.();
  }

  const types = { pointerdown: down, pointermove: move, pointerup: up, pointercancel: cancel };
  for (const [type, listener] of Object.entries(types)) node.addEventListener(type, listener);
  return {
    update(next) {
      current = next;
    },
    destroy() {
      for (const [type, listener] of Object.entries(types)) node.removeEventListener(type, listener);
    },
  };
}
