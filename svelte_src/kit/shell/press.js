// A Svelte action: the second meaning of a button, by Alt and click or by a long press.

const LONG_MS = 500;
const STILL_PIXELS = 8;

/**
 * @param {HTMLElement} node
 * @param {() => void} act called instead of the click's own listeners
 */
export function alternative(node, act) {
  let current = act;
  let timer = null;
  let start = null;
  let long = false;

  const cancel = () => clearTimeout(timer);

  function down(event) {
    long = false;
    if (event.button !== 0) return;
    start = event;
    timer = setTimeout(() => {
      long = true;
      current();
    }, LONG_MS);
  }

  function move({ clientX, clientY }) {
    if (start && Math.hypot(clientX - start.clientX, clientY - start.clientY) > STILL_PIXELS) cancel();
  }

  function click(event) {
    cancel();
    if (!long && !event.altKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!long) current();
    long = false;
  }

  /** A long press also asks for a menu. */
  const menu = (event) => long && event.preventDefault();

  /** @type {Record<string, (event: any) => void>} each gets events of its own class */
  const listeners = {
    pointerdown: down,
    pointermove: move,
    pointerup: cancel,
    pointercancel: cancel,
    pointerleave: cancel,
    click,
    contextmenu: menu,
  };
  for (const [type, listener] of Object.entries(listeners)) node.addEventListener(type, listener, { capture: true });
  return {
    update(next) {
      current = next;
    },
    destroy() {
      cancel();
      for (const [type, listener] of Object.entries(listeners)) {
        node.removeEventListener(type, listener, { capture: true });
      }
    },
  };
}
