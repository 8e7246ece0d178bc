// The strongest features of an image, each alone: small images below each other on one canvas, or beside each other.
import { greyImage } from "../../kit/image/grey.js";
import { newCanvas, putImage } from "../../kit/image/canvas.js";
import { composeImage } from "../../kit/image/compose.js";
import { strongestFeatures } from "./image.js";

/** Images, and the gap between two as a share of one: three are as high as an image that is 3.1 times as wide. */
export const [COUNT, GAP] = [3, 0.05];
export const LENGTH = COUNT + (COUNT - 1) * GAP;

/** What shows a feature of an image alone: both as `composeImage` takes them. */
export const alone = (composition, k) => ({ ...composition, chosen: [k], residual: false });

/** @typedef {import("./examples.js").Rectangle} Rectangle */

/** The rectangle of an image on a canvas. @returns {Rectangle} */
export function rectangleAt(place, { width, height }, across) {
  const unit = (across ? width : height) / LENGTH;
  const [start, length] = [Math.round(place * (1 + GAP) * unit), Math.round(unit)];
  return across ? { x: start, y: 0, width: length, height } : { x: 0, y: start, width, height: length };
}

/** @param {Rectangle} cell @param {number[]} region */
const partOf = ({ x, y, width, height }, [top, left, bottom, right]) => ({
  x: x + left * width,
  y: y + top * height,
  width: (right - left) * width,
  height: (bottom - top) * height,
});

let scratch = null;

/**
 * Draw images on a canvas, which keeps its size.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {object} scene
 * @param {object[]} scene.images at most three, as `composeImage` returns them
 * @param {ImageBitmap | null} scene.observation under each of them
 * @param {number} scene.opacity of the images over it
 * @param {number[]} [scene.region] top, left, bottom and right of the part of the observation that they cover, as shares
 * @param {boolean} [scene.across] beside each other
 */
export function drawMultiples(canvas, { images, observation, opacity, region = [0, 0, 1, 1], across = false }) {
  scratch ??= newCanvas(1, 1);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  const grey = observation && greyImage(observation, true);
  images.forEach((image, place) => {
    const cell = rectangleAt(place, canvas, across);
    if (grey) context.drawImage(grey, cell.x, cell.y, cell.width, cell.height);
    const { x, y, width, height } = partOf(cell, region);
    context.globalAlpha = grey ? opacity : 1;
    context.drawImage(putImage(scratch, image), x, y, width, height);
    context.globalAlpha = 1;
    for (const position of image.clipped) {
      const column = position % image.width;
      const [centerX, centerY] = [column + 0.5, (position - column) / image.width + 0.5];
      drawDot(context, x + (centerX * width) / image.width, y + (centerY * height) / image.height);
    }
  });
  return canvas;
}

/** What marks a position that exceeds the scale. */
function drawDot(context, x, y) {
  context.fillStyle = "#000000";
  context.fillRect(Math.round(x) - 2, Math.round(y) - 2, 4, 4);
  context.fillStyle = "#ffffff";
  context.fillRect(Math.round(x) - 1, Math.round(y) - 1, 2, 2);
}

/** The strongest features of an image, each alone, for a figure: a canvas, and what is written on it. */
export function featuresAlone(options, size, scene, colors) {
  const canvas = newCanvas(Math.round(size.width / LENGTH), size.height);
  const features = strongestFeatures(options, COUNT);
  drawMultiples(canvas, { ...scene, images: features.map((k) => composeImage(alone(options, k))) });
  const chips = features.map((k, place) => ({ y: rectangleAt(place, canvas).y, text: `${k + 1}`, ...colors[k] }));
  return { name: "", canvas, chips };
}
