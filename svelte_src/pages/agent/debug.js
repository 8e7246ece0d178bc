// `window.rlClarity`: what is shown, for tests and for the curious.
import { get } from "svelte/store";
import { pictureOf } from "./image.js";
import { rowTarget } from "./selection.js";

export function expose(page) {
  const { manifest, selection, chunks } = page;
  window.rlClarity = {
    manifest,
    /** The selection, as a plain value counted from 0. */
    state: () => structuredClone(selection.now),
    /** Change parts of the selection. */
    select: (patch) => selection.change(patch),
    /** Bytes of unpacked chunks that are held. */
    chunkBytes: () => chunks.bytes,
    /** What a row shows of a direction ("pos", "neg", "abs"): premultiplied RGBA in 0..1, row by row. */
    compose(rowIndex = 0, direction = "pos") {
      const now = selection.now;
      const target = rowTarget(manifest, now, now.rows[rowIndex]);
      const options = { isolated: get(page.isolated), colors: get(page.colors)[target.layer] };
      const picture = pictureOf({ manifest, chunks, selection: now, target, direction, ...options });
      return picture && { height: picture.height, width: picture.width, data: Array.from(picture.premultiplied()) };
    },
  };
}
