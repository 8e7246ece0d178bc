// Figures for files: images with captions, drawn on a canvas or as SVG.
import { newCanvas, putImage } from "../image/canvas.js";
import { createSvg } from "./svg.js";

/** Height of text, of a line of it; pixels between images, between rows, and around all. */
export const [FONT, LINE, GAP, SPACE, MARGIN] = [13, 19, 4, 14, 8];
/** The font of figures. */
export const FAMILY = "sans-serif";

/**
 * @typedef {object} Figure
 * @property {number} width
 * @property {number} height
 * @property {(context: CanvasRenderingContext2D | ReturnType<typeof createSvg>) => void} draw
 */

/** Images over each other, enlarged without smoothing: [image, opacity, region: the part of the size that it covers]. */
export function scaled({ width, height }, layers) {
  const canvas = newCanvas(width, height);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.imageSmoothingEnabled = false;
  for (const [image, opacity, [top, left, bottom, right] = [0, 0, 1, 1]] of layers) {
    context.globalAlpha = opacity;
    context.drawImage(image, left * width, top * height, (right - left) * width, (bottom - top) * height);
  }
  return canvas;
}

/** An image on a canvas of its size. */
export const pixelCanvas = (image) => putImage(newCanvas(1, 1), image);

// Blocks, which are drawn below each other: {height, draw(context, top)}.

/** @returns {Figure} */
export function stacked(blocks, width) {
  const height = blocks.reduce((sum, block) => sum + block.height + SPACE, -SPACE);
  return {
    width: Math.ceil(width) + 2 * MARGIN,
    height: Math.ceil(height) + 2 * MARGIN,
    draw(context) {
      context.fillStyle = "#ffffff";
      context.fillRect(0, 0, Math.ceil(width) + 2 * MARGIN, Math.ceil(height) + 2 * MARGIN);
      context.translate(MARGIN, MARGIN);
      let top = 0;
      for (const block of blocks) {
        block.draw(context, top);
        top += block.height + SPACE;
      }
      context.translate(-MARGIN, -MARGIN);
    },
  };
}

/** Lines of text. */
export const textBlock = (lines, bold = false) => ({
  height: lines.length * LINE,
  draw: (context, top) => lines.forEach((text, i) => writeText(context, text, 0, top + (i + 1) * LINE - 5, bold)),
});

export function writeText(context, text, x, y, bold = false, color = "#000000") {
  context.fillStyle = color;
  context.font = `${bold ? "bold " : ""}${FONT}px ${FAMILY}`;
  context.fillText(text, x, y);
}

/** With a reserve, as a viewer of figures may have another font. */
export function textWidth(text) {
  const context = /** @type {CanvasRenderingContext2D} */ (newCanvas(1, 1).getContext("2d"));
  context.font = `bold ${FONT}px ${FAMILY}`;
  return 1.1 * context.measureText(text).width;
}

function canvasOf(figure) {
  const canvas = newCanvas(figure.width, figure.height);
  figure.draw(/** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true })));
  return canvas;
}

/** @param {Figure} figure @returns {Promise<Blob>} */
export const figurePng = (figure) => pngOf(canvasOf(figure));

/** @param {HTMLCanvasElement} canvas @returns {Promise<Blob>} */
export const pngOf = (canvas) =>
  new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The image is too large."))), "image/png"),
  );

/** @param {Figure} figure whose labels are text @returns {Blob} */
export function figureSvg(figure) {
  const svg = createSvg(figure.width, figure.height);
  figure.draw(svg);
  return new Blob([String(svg)], { type: "image/svg+xml" });
}

/** A text that is not wider than so many pixels. */
export function cutText(text, width) {
  let shown = text;
  while (shown.length > 1 && textWidth(shown) > width) shown = `${shown.replace("\u2026", "").slice(0, -1)}\u2026`;
  return shown;
}
