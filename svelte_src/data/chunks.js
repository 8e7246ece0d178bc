// Loads chunk scripts when they are needed, and keeps the recent ones unpacked.
import { createLoader } from "./cache.js";
import { decodeChunk } from "./decode.js";

/** A missing or damaged data file; `message` is for the reader. */
export class ChunkError extends Error {
  constructor(name, problem) {
    super(`${name} ${problem}`);
    this.chunk = name;
  }
}

/**
 * @param {object} options
 * @param {string[]} [options.missing] names that the manifest says are not there yet
 * @param {string} [options.folder] what names are relative to: nothing, or an address that ends in "/"
 * @param {number} [options.budget] bytes of unpacked arrays that are kept
 * @param {Document} [options.document]
 * @param {object} [options.scope] where chunk scripts find `rlClarityChunk`
 */
export function createChunks({
  missing = [],
  folder = "",
  budget = 96 * 2 ** 20,
  document = globalThis.document,
  scope = globalThis,
} = {}) {
  const chunks = createLoader(budget, load, byteLength);
  const failed = new Map();
  const handed = new Map();
  const absent = new Set(missing);
  scope.rlClarityChunk = (name, header, base64) => handed.set(name, { header, base64 });

  function embedded(name) {
    const element = document.querySelector(`script[data-chunk="${CSS.escape(name)}"]`);
    if (!element) return null;
    const text = element.textContent.trim();
    const cut = text.indexOf("\n");
    return { header: JSON.parse(text.slice(0, cut)), base64: text.slice(cut + 1).trim() };
  }

  function runScript(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = folder + name;
      script.async = true;
      script.onload = () => {
        script.remove();
        const chunk = handed.get(name);
        handed.delete(name);
        if (chunk) resolve(chunk);
        else reject(new ChunkError(name, "is damaged"));
      };
      script.onerror = () => {
        script.remove();
        reject(new ChunkError(name, "is missing"));
      };
      document.head.append(script);
    });
  }

  async function load(name, early = false) {
    try {
      if (absent.has(name)) throw new ChunkError(name, "is not computed yet");
      const { header, base64 } = embedded(name) ?? (await runScript(name));
      const arrays = await decodeChunk(header, base64, early);
      return { arrays, meta: header.meta };
    } catch (error) {
      const problem = error instanceof ChunkError ? error : new ChunkError(name, "is damaged");
      failed.set(name, problem);
      throw problem;
    }
  }

  return {
    /** The chunk if it is there now, else undefined. */
    peek: chunks.peek,
    /** Why a chunk could not be loaded, if it was tried. */
    failure: (name) => failed.get(name),
    /** Load a chunk, or return the one that is there; `early`: unpack it in the background. @returns {Promise<{arrays: object, meta?: object}>} */
    get: (name, early = false) => (failed.has(name) ? Promise.reject(failed.get(name)) : chunks.get(name, early)),
    /** Load ahead, quietly. */
    prefetch(name) {
      if (name && !chunks.has(name) && !failed.has(name)) chunks.get(name, true).catch(() => {});
    },
    /** Forget failures, so that the next get tries again. */
    retry: () => failed.clear(),
    get bytes() {
      return chunks.used;
    },
  };
}

function byteLength(chunk) {
  return Object.values(chunk.arrays).reduce((sum, { data }) => sum + data.byteLength, 0);
}
