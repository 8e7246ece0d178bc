// Images of a trajectory's steps, decoded from frame chunks ahead of need. Chunks contain pixels, or PNG files of large
// frames. Creating a Blob blocks the calling thread for a millisecond, so files that are not needed yet are decoded by a
// worker.
import { inBackground } from "./background.js";
import { createLoader } from "./cache.js";

const AHEAD = 24;
const BEHIND = 8;

/** What of a stacked observation is asked for, as its arrays' names begin. */
export const NEWEST = "";
export const STACK = "stack_";

/**
 * @param {object} manifest
 * @param {ReturnType<import("./chunks.js").createChunks>} chunks
 * @param {number} [budget] bytes of decoded images that are kept
 */
export function createFrames(manifest, chunks, budget = 64 * 2 ** 20) {
  const decodeAhead = inBackground(`${decodePng}`, decodePng);
  const keyOf = (trajectory, frame, part) => `${trajectory}/${frame}${part}`;
  const bitmaps = createLoader(
    budget,
    decode,
    ({ width, height }) => width * height * 4,
    (bitmap) => bitmap.close(),
  );

  async function decode(_key, trajectory, frame, part, ahead) {
    const segment = Math.floor(frame / manifest.segment);
    const name = manifest.trajectories[trajectory].frames[segment];
    const { arrays } = await chunks.get(name);
    const at = frame - segment * manifest.segment;
    const [pixels, offsets, png] = ["pixels", "offsets", "png"].map((kind) => arrays[`${part}${kind}`]);
    if (pixels) {
      const [, height, width] = pixels.shape;
      return createImageBitmap(new ImageData(opaque(pixels, at), width, height));
    }
    if (!png) throw new Error(`${name} holds no stacked frames`);
    const bytes = png.data.subarray(offsets.data[at], offsets.data[at + 1]);
    return ahead ? decodeAhead(bytes.slice()) : decodePng(bytes);
  }

  const get = (trajectory, frame, part = NEWEST, ahead = false) =>
    bitmaps.get(keyOf(trajectory, frame, part), trajectory, frame, part, ahead);

  const known = (trajectory, frame) => bitmaps.has(keyOf(trajectory, frame, NEWEST));

  return {
    peek: (trajectory, frame, part = NEWEST) => bitmaps.peek(keyOf(trajectory, frame, part)),
    /** @param {string} [part] NEWEST, or STACK: all frames of a stacked observation side by side */
    get,
    /** Decode the neighbours of a frame after it, more of them in the direction of travel; many at once, now and then. */
    async warm(trajectory, frame, direction = 1) {
      await get(trajectory, frame).catch(() => {}); // nothing delays the frame itself
      const last = manifest.trajectories[trajectory].steps - 1;
      const within = (at) => Math.max(0, Math.min(last, at));
      const near = [frame - (BEHIND / 2) * direction, frame + (AHEAD / 2) * direction];
      if (near.every((at) => known(trajectory, within(at)))) return;
      const ends = [frame - BEHIND * direction, frame + AHEAD * direction].map(within);
      for (let at = Math.min(...ends); at <= Math.max(...ends); at += 1) {
        const name = manifest.trajectories[trajectory].frames[Math.floor(at / manifest.segment)];
        if (!chunks.failure(name) && !known(trajectory, at)) get(trajectory, at, NEWEST, true).catch(() => {});
      }
    },
  };
}

/** Its text is run in a worker: it needs nothing around it. */
function decodePng(bytes) {
  return createImageBitmap(new Blob([bytes], { type: "image/png" }));
}

/** An image of gray or RGB images (n, H, W, 1 | 3), as bytes of red, green, blue and opacity. */
export function opaque({ data, shape: [, height, width, channels] }, index) {
  const rgba = new Uint8ClampedArray(height * width * 4).fill(255);
  const last = channels - 1;
  for (let to = 0, from = index * height * width * channels; to < rgba.length; to += 4, from += channels) {
    for (let k = 0; k < 3; k += 1) rgba[to + k] = data[from + Math.min(k, last)];
  }
  return rgba;
}
