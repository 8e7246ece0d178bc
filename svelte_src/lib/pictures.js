// Where a picture of the page is: a file beside it, or inside it (single file).
import { fromBase64 } from "./decode.js";

export function createPictures(document = globalThis.document) {
  const urls = new Map();
  const images = new Map();

  function url(name) {
    if (!urls.has(name)) {
      const element = document.querySelector(`script[data-picture="${CSS.escape(name)}"]`);
      const bytes = element && fromBase64(element.textContent.trim());
      urls.set(name, bytes ? URL.createObjectURL(new Blob([bytes], { type: "image/png" })) : name);
    }
    return urls.get(name);
  }

  /** An Image to draw with; never read its pixels. @returns {Promise<HTMLImageElement>} */
  function image(name) {
    if (!images.has(name)) {
      images.set(
        name,
        new Promise((resolve, reject) => {
          const element = new Image();
          element.onload = () => resolve(element);
          element.onerror = () => reject(new Error(`${name} is missing`));
          element.src = url(name);
        }),
      );
    }
    return images.get(name);
  }

  return { url, image };
}
