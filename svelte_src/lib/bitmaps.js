// Decodes PNGs. Making a Blob holds the calling thread up for a millisecond, so what is not needed yet goes to a worker.
import { inBackground } from "./background.js";

export function createDecoder() {
  const ahead = inBackground(`${decodePng}`, decodePng);
  return {
    /** @param {Uint8Array} bytes @param {boolean} [early] not needed yet @returns {Promise<ImageBitmap>} */
    decode: (bytes, early = false) => (early ? ahead(bytes.slice()) : decodePng(bytes)),
  };
}

/** Its text is run in a worker: it needs nothing around it. */
function decodePng(bytes) {
  return createImageBitmap(new Blob([bytes], { type: "image/png" }));
}
