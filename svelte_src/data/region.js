// Sums of attribution over a region of positions, for every frame of a chunk of maps.
import { inBackground } from "./background.js";
import { createLoader } from "./cache.js";

/**
 * Its text is run in a worker: it needs nothing around it.
 *
 * @param {{codes: Int8Array, shape: number[], scales: Float32Array, region: number[]}} task codes of shape (n, h, w, depth);
 *   region: first row, first column, row after the last, column after the last
 * @returns {ArrayBuffer} of float32 (n, depth)
 */
export function sumRegion({ codes, shape, scales, region }) {
  const [count, height, width, depth] = shape;
  const [top, left, bottom, right] = region;
  const values = Float64Array.from({ length: 256 }, (_, i) => Math.sign(i - 128) * ((i - 128) / 127) ** 2);
  const sums = new Float64Array(count * depth);
  for (let n = 0; n < count; n += 1) {
    for (let y = top; y < bottom; y += 1) {
      let at = ((n * height + y) * width + left) * depth;
      for (let x = left; x < right; x += 1) {
        for (let k = 0; k < depth; k += 1, at += 1) sums[n * depth + k] += values[codes[at] + 128];
      }
    }
    for (let k = 0; k < depth; k += 1) sums[n * depth + k] *= scales[n];
  }
  return Float32Array.from(sums).buffer;
}

const BUDGET = 4 * 2 ** 20;

/**
 * Sums over regions, computed in the background and remembered.
 *
 * @param {ReturnType<import("./chunks.js").createChunks>} chunks
 */
export function createRegionSums(chunks) {
  const sum = inBackground(`${sumRegion}`, async (task) => sumRegion(task));
  const segments = createLoader(BUDGET, load, ({ data }) => data.byteLength);

  async function load(_key, name, region) {
    const { codes, scales } = (await chunks.get(name, true)).arrays;
    const buffer = await sum({ codes: codes.data, shape: codes.shape, scales: scales.data, region });
    return { data: new Float32Array(buffer), depth: codes.shape[3] };
  }

  return {
    /**
     * Every frame of a trajectory, whose chunks are loaded one after another.
     *
     * @param {string[]} names the trajectory's chunks
     * @param {number[]} region as in `sumRegion`
     * @param {() => boolean} wanted stops when it is false
     * @returns {Promise<{data: Float32Array, shape: number[]} | null>} (T, depth); null if it was stopped
     */
    async series(names, region, wanted = () => true) {
      const parts = [];
      for (const name of names) {
        if (!wanted()) return null;
        parts.push(await segments.get(`${name} ${region}`, name, region));
      }
      const data = new Float32Array(parts.reduce((length, part) => length + part.data.length, 0));
      let at = 0;
      for (const part of parts) {
        data.set(part.data, at);
        at += part.data.length;
      }
      return { data, shape: [data.length / parts[0].depth, parts[0].depth] };
    },
  };
}
