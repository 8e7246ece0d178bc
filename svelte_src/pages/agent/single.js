// A Svelte action for what stands for a feature: images show the feature alone while the pointer or the focus is on it, and
// keep it so ("solo") after Alt and a click, or a long press.
import { alternative } from "../../kit/shell/press.js";
import { toggleSolo } from "./channels.js";

/**
 * @param {HTMLElement} node
 * @param {{page: object, layer: number, channel: number | undefined}} options channel: undefined for what is no feature
 */
export function single(node, options) {
  const { manifest, isolated } = options.page;
  if (manifest.view?.single_channels === false) return {};
  let { layer, channel } = options;
  let on = false;

  function enter() {
    if (channel === undefined) return;
    on = true;
    isolated.set({ layer, channel });
  }

  function leave() {
    if (on) isolated.set(null);
    on = false;
  }

  const listeners = { mouseenter: enter, mouseleave: leave, focus: enter, blur: leave };
  for (const [type, listener] of Object.entries(listeners)) node.addEventListener(type, listener);
  const press = alternative(node, () => channel !== undefined && toggleSolo(options.page, { layer, channel }));
  return {
    update: (next) => ({ layer, channel } = next),
    destroy() {
      leave();
      press.destroy();
      for (const [type, listener] of Object.entries(listeners)) node.removeEventListener(type, listener);
    },
  };
}
