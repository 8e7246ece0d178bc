// Pictures of a trajectory's steps, decoded from frame chunks ahead of need.
import { createCache } from "./lru.js";

const AHEAD = 24;
const BEHIND = 8;

/**
 * @param {object} manifest
 * @param {ReturnType<import("./chunks.js").createChunks>} chunks
 * @param {number} [budget] bytes of decoded pictures that are kept
 */
export function createFrames(manifest, chunks, budget = 64 * 2 ** 20) {
  const decoded = createCache(budget, (bitmap) => bitmap.close());
  const pending = new Map();
  const keyOf = (trajectory, frame) => `${trajectory}/${frame}`;

  async function decode(trajectory, frame) {
    const { bytes, error } = await pngBytes(trajectory, frame);
    if (error) throw error;
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    decoded.set(keyOf(trajectory, frame), bitmap, bitmap.width * bitmap.height * 4);
    return bitmap;
  }

  async function pngBytes(trajectory, frame) {
    const segment = Math.floor(frame / manifest.segment);
    const { arrays } = await chunks.get(manifest.trajectories[trajectory].frames[segment]);
    const at = frame - segment * manifest.segment;
    const offsets = arrays.offsets.data;
    return { bytes: arrays.png.data.subarray(offsets[at], offsets[at + 1]) };
  }

  function get(trajectory, frame) {
    const key = keyOf(trajectory, frame);
    const bitmap = decoded.get(key);
    if (bitmap) return Promise.resolve(bitmap);
    if (!pending.has(key)) {
      pending.set(
        key,
        decode(trajectory, frame).finally(() => pending.delete(key)),
      );
    }
    return pending.get(key);
  }

  return {
    peek: (trajectory, frame) => decoded.get(keyOf(trajectory, frame)),
    get,
    /** Decode the neighbours of a frame, more of them in the direction of travel. */
    warm(trajectory, frame, direction = 1) {
      const steps = manifest.trajectories[trajectory].steps;
      const [before, after] = direction < 0 ? [AHEAD, BEHIND] : [BEHIND, AHEAD];
      for (let other = Math.max(0, frame - before); other <= Math.min(steps - 1, frame + after); other += 1) {
        const name = manifest.trajectories[trajectory].frames[Math.floor(other / manifest.segment)];
        if (!chunks.failure(name) && !decoded.has(keyOf(trajectory, other))) get(trajectory, other).catch(() => {});
      }
    },
  };
}
