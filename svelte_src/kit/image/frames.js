// A figure of frames with their saliency maps, side by side.
import { saliencyColor } from "./colors.js";
import { FONT, GAP, LINE, pixelCanvas, scaled, stacked, textBlock, textWidth, writeText } from "./figure.js";
import { greyImage } from "./grey.js";
import { overlayImage } from "./overlay.js";

/**
 * A frame of an episode with its map, enlarged, and the outputs that the map is of.
 *
 * @param {object} view of the episode: its frames and its manifest
 * @param {{trajectory: number, frame: number}} place
 * @param {object | null} chunk the maps, and the method that they are by
 * @param {object} selection
 */
export async function frameImage({ frames, manifest }, { trajectory, frame }, { chunk, method }, selection, scale) {
  const bitmap = await frames.get(trajectory, frame);
  const { observation } = manifest;
  const { shows = "both", grey, opacity } = selection;
  const map =
    chunk && method && shows !== "frame"
      ? overlayImage({ chunk, method, frame, trajectory, selection, observation })
      : null;
  const layers = map && shows === "saliency" ? [] : [[grey ? greyImage(bitmap, false) : bitmap, 1]];
  if (map) layers.push([pixelCanvas(map.image), layers.length ? opacity : 1]);
  const canvas = scaled({ width: bitmap.width * scale, height: bitmap.height * scale }, layers);
  return { canvas, outputs: map?.peaks.map(({ output }) => output) ?? [] };
}

/**
 * @param {string} caption
 * @param {{canvas: HTMLCanvasElement, outputs: string[], lines: string[]}[]} images each below its lines of text
 * @param {string} palette of the maps
 * @returns {import("./figure.js").Figure}
 */
export function framesFigure(caption, images, palette) {
  const widths = images.map(({ canvas, lines }) => Math.max(canvas.width, ...lines.map(textWidth)) + GAP);
  const width = widths.reduce((sum, one) => sum + one, -GAP);
  const above = Math.max(...images.map(({ lines }) => lines.length)) * LINE;
  const block = {
    height: above + Math.max(...images.map(({ canvas }) => canvas.height)),
    draw(context, top) {
      images.reduce((left, { canvas, lines }, i) => {
        lines.forEach((line, k) => writeText(context, line, left, top + k * LINE + FONT, k === 0));
        context.drawImage(canvas, left, top + above);
        return left + widths[i];
      }, 0);
    },
  };
  return stacked(
    [textBlock([caption], true), block, ...legendBlocks(images, palette)],
    Math.max(width, textWidth(caption)),
  );
}

/** The colors of the outputs that maps are of. */
function legendBlocks(images, palette) {
  const shown = [...new Set(images.flatMap(({ outputs }) => outputs))];
  const draw = (context, top) =>
    shown.reduce((left, output) => {
      const text = `saliency of the ${output === "greedy" ? "largest action value" : output}`;
      context.fillStyle = saliencyColor(output, palette);
      context.fillRect(left, top + 3, FONT, FONT);
      writeText(context, text, left + FONT + 4, top + LINE - 5);
      return left + FONT + 16 + textWidth(text);
    }, 0);
  return shown.length ? [{ height: LINE, draw }] : [];
}
