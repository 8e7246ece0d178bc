// Where an image of the page is: a file beside it, or inside it (single file).
import { createLoader } from "./cache.js";
import { fromBase64 } from "./decode.js";

// A placeholder for images that the page does not have yet: requesting them would only fail.
const NOTHING = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/%3E";

/**
 * @param {object} options
 * @param {string[]} [options.missing] names that the manifest says are not there yet
 * @param {string} [options.folder] what names are relative to: nothing, or an address that ends in "/"
 * @param {(name: string) => void} [options.onFailed] called with the names of images that are missing or damaged
 * @param {number} [options.budget] bytes of decoded images that are kept for drawing
 * @param {Document} [options.document]
 */
export function createImages({
  missing = [],
  folder = "",
  onFailed = () => {},
  budget = 64 * 2 ** 20,
  document = globalThis.document,
} = {}) {
  const absent = new Set(missing);
  const urls = new Map();
  const images = createLoader(budget, load, ({ naturalWidth, naturalHeight }) => naturalWidth * naturalHeight * 4);

  function url(name) {
    if (absent.has(name)) return NOTHING;
    if (!urls.has(name)) {
      const element = document.querySelector(`script[data-image="${CSS.escape(name)}"]`);
      const bytes = element && fromBase64(element.textContent.trim());
      urls.set(name, bytes ? URL.createObjectURL(new Blob([bytes], { type: "image/png" })) : folder + name);
    }
    return urls.get(name);
  }

  function load(name) {
    if (absent.has(name)) return Promise.reject(new Error(`${name} is not computed yet`));
    const image = new Image();
    image.src = url(name);
    const check = async () => {
      await image.decode();
      // Images that are cut off are decoded without an error, but make no bitmap.
      const bitmap = await createImageBitmap(image, { resizeWidth: 1, resizeHeight: 1 });
      bitmap.close();
      return image;
    };
    return check().catch(() => {
      onFailed(name);
      throw new Error(`${name} is missing or damaged`);
    });
  }

  return {
    url,
    /** An Image to draw with; never read its pixels. @returns {Promise<HTMLImageElement>} */
    image: images.get,
  };
}
