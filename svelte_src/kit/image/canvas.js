// Canvases that images are put on.

export const newCanvas = (width, height) => Object.assign(document.createElement("canvas"), { width, height });

/** Put an image on a canvas, which gets its size. @param {HTMLCanvasElement} canvas @param {{width: number, height: number, rgba: Uint8ClampedArray<ArrayBuffer>}} image */
export function putImage(canvas, { width, height, rgba }) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  context.putImageData(new ImageData(rgba, width, height), 0, 0);
  return canvas;
}
