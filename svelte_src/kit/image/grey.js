// Observations in grey, over which maps are drawn.
import { recent } from "../../data/cache.js";
import { newCanvas } from "./canvas.js";

/** Images that are kept: a frame is under several maps, and the next one is drawn ahead. */
const KEPT = 8;

/** Turn RGBA bytes grey in place (ITU-R BT.601, as the images that Python draws); `faded`: of less contrast and darker. */
export function makeGrey(rgba, faded = false) {
  for (let at = 0; at < rgba.length; at += 4) {
    const level = 0.299 * rgba[at] + 0.587 * rgba[at + 1] + 0.114 * rgba[at + 2];
    const grey = faded ? 0.4 * level + 51 : level;
    rgba[at] = grey;
    rgba[at + 1] = grey;
    rgba[at + 2] = grey;
  }
}

const draw = recent(
  ({ bitmap, faded }, canvas = newCanvas(1, 1)) => {
    const { width, height } = bitmap;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.clearRect(0, 0, width, height);
    context.drawImage(bitmap, 0, 0);
    const pixels = context.getImageData(0, 0, width, height);
    makeGrey(pixels.data, faded);
    context.putImageData(pixels, 0, 0);
    return canvas;
  },
  ({ bitmap, faded }) => [bitmap, faded],
  KEPT,
);

/** An image in grey, on a canvas that is not to be changed, and to be used at once: a later image takes it. */
export const greyImage = (bitmap, faded = false) => draw({ bitmap, faded });
