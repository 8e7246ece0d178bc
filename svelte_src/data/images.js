// Where an image of the page is: a file beside it, or inside it (single file).
import { createCache } from "./cache.js";
import { fromBase64 } from "./decode.js";

// Shown in the place of an image that is still to be made: asking for it would only be an error.
const NOTHING = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/%3E";

/**
 * @param {object} [document]
 * @param {number} [budget] bytes of decoded images that are kept for drawing
 * @param {string[]} [missing] names that the manifest says are not there yet
 */
export function createImages(document = globalThis.document, budget = 64 * 2 ** 20, missing = []) {
  const absent = new Set(missing);
  const urls = new Map();
  const images = createCache(budget);
  const pending = new Map();

  function url(name) {
    if (absent.has(name)) return NOTHING;
    if (!urls.has(name)) {
      const element = document.querySelector(`script[data-image="${CSS.escape(name)}"]`);
      const bytes = element && fromBase64(element.textContent.trim());
      urls.set(name, bytes ? URL.createObjectURL(new Blob([bytes], { type: "image/png" })) : name);
    }
    return urls.get(name);
  }

  /** An Image to draw with; never read its pixels. @returns {Promise<HTMLImageElement>} */
  function image(name) {
    if (absent.has(name)) return Promise.reject(new Error(`${name} has not been made yet`));
    const known = images.get(name);
    if (known) return Promise.resolve(known);
    if (!pending.has(name)) {
      pending.set(
        name,
        load(name).finally(() => pending.delete(name)),
      );
    }
    return pending.get(name);
  }

  function load(name) {
    return new Promise((resolve, reject) => {
      const element = new Image();
      element.onload = () => {
        images.set(name, element, element.naturalWidth * element.naturalHeight * 4);
        resolve(element);
      };
      element.onerror = () => reject(new Error(`${name} is missing`));
      element.src = url(name);
    });
  }

  return { url, image };
}
