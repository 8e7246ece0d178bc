// A figure of frames with their saliency maps, side by side.
import { saliencyColor } from "../image/colors.js";
import { greyImage } from "../image/grey.js";
import { overlayImage } from "../image/overlay.js";
import { FONT, GAP, LINE, pixelCanvas, scaled, stacked, textBlock, textWidth, writeText } from "./figure.js";

/**
 * @typedef {object} EpisodeImage
 * @property {any} view the page as components inside the episode know it: its frames and its manifest
 * @property {number} trajectory
 * @property {number} frame
 * @property {object | null} [chunk] its maps, and the method that they are by
 * @property {object | null} [method]
 * @property {string[]} lines of text above the frame
 */

/**
 * @param {string} caption
 * @param {EpisodeImage[]} episodes
 * @param {object} selection how maps are shown
 * @param {number} scale screen pixels for each pixel of a frame
 * @returns {Promise<import("./figure.js").Figure>}
 */
export async function framesFigure(caption, episodes, selection, scale) {
  const images = [];
  for (const episode of episodes) images.push(await frameImage(episode, selection, scale));
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
  const legend = legendBlocks(images, selection.palette);
  return stacked([textBlock([caption], true), block, ...legend], Math.max(width, textWidth(caption)));
}

/** An enlarged frame with its map, and the outputs that the map is of. @param {EpisodeImage} episode @param {any} selection @param {number} scale */
async function frameImage({ view, trajectory, frame, chunk, method, lines }, selection, scale) {
  const { observation } = view.manifest;
  const { shows = "both", grey, opacity } = selection;
  const bitmap = await view.frames.get(trajectory, frame);
  const map =
    chunk && method && shows !== "frame"
      ? overlayImage({ chunk, method, frame, trajectory, selection, observation })
      : null;
  const layers = map && shows === "saliency" ? [] : [[grey ? greyImage(bitmap, false) : bitmap, 1]];
  if (map) layers.push([pixelCanvas(map.image), layers.length ? opacity : 1]);
  const canvas = scaled({ width: bitmap.width * scale, height: bitmap.height * scale }, layers);
  return { canvas, lines, outputs: map?.peaks.map(({ output }) => output) ?? [] };
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
