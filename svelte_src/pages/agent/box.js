// A box on the observation, and attribution inside it over time.
import { dragging } from "../../kit/shell/drag.js";

/** @typedef {{left: number, top: number, right: number, bottom: number}} Box in pixels of the frames; right and bottom excluded */

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** The box between two points (fractions of the observation), of whole pixels. @returns {Box} */
export function boxBetween(a, b, { frame_width: width, frame_height: height }) {
  const [left, right] = edges(a.x, b.x, width);
  const [top, bottom] = edges(a.y, b.y, height);
  return { left, top, right, bottom };
}

function edges(a, b, length) {
  const low = clamp(Math.floor(Math.min(a, b) * length), 0, length - 1);
  return [low, clamp(Math.ceil(Math.max(a, b) * length), low + 1, length)];
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The box after an arrow key, which moves it or, with `resize`, its right and lower edge; null for other keys. */
export function boxAfterKey(box, key, resize, { frame_width: width, frame_height: height }) {
  if (!(key in STEPS)) return null;
  const [dx, dy] = [STEPS[key][0] * stepOf(width), STEPS[key][1] * stepOf(height)];
  const { left, top, right, bottom } = box;
  if (resize) {
    return { left, top, right: clamp(right + dx, left + 1, width), bottom: clamp(bottom + dy, top + 1, height) };
  }
  const [x, y] = [clamp(dx, -left, width - right), clamp(dy, -top, height - bottom)];
  return { left: left + x, top: top + y, right: right + x, bottom: bottom + y };
}

const stepOf = (length) => Math.max(1, Math.round(length / 64));

/** The middle of the observation, where the keyboard starts. @returns {Box} */
export const middleBox = (observation) => boxBetween({ x: 0.375, y: 0.375 }, { x: 0.625, y: 0.625 }, observation);

/** "16.8.32.24": left, top, right, bottom. */
export const boxToText = ({ left, top, right, bottom }) => [left, top, right, bottom].join(".");

/** @returns {Box | null} null where the text is not a box inside the frames */
export function boxFromText({ frame_width: width, frame_height: height }, text) {
  if (!/^\d+(\.\d+){3}$/.test(text)) return null;
  const [left, top, right, bottom] = text.split(".").map(Number);
  return left < right && top < bottom && right <= width && bottom <= height ? { left, top, right, bottom } : null;
}

/**
 * The positions of a layer whose centers are in a box, at least the one at the center of what the observation shows of it.
 *
 * @param {Box} box
 * @param {object} observation `region`: what part of a frame it shows, which the layer divides
 * @returns {number[] | null} first row, first column, row after the last, column after the last; null where the observation
 *   shows nothing of the box
 */
export function positionsIn({ left, top, right, bottom }, observation, layer) {
  const [above, before, below, after] = observation.region ?? [0, 0, 1, 1];
  const share = (pixels, length, from, to) => clamp((pixels / length - from) / (to - from), 0, 1);
  const [low, high] = [top, bottom].map((y) => share(y, observation.frame_height, above, below));
  const [start, end] = [left, right].map((x) => share(x, observation.frame_width, before, after));
  if (low === high || start === end) return null;
  const [firstRow, lastRow] = range(low, high, layer.height);
  const [firstColumn, lastColumn] = range(start, end, layer.width);
  return [firstRow, firstColumn, lastRow, lastColumn];
}

function range(low, high, count) {
  const [first, last] = [low, high].map((edge) => Math.max(0, Math.ceil(edge * count - 0.5)));
  const middle = Math.min(count - 1, Math.floor(((low + high) / 2) * count));
  return last > first ? [first, last] : [middle, middle + 1];
}

/**
 * A Svelte action: drag over an element to draw a box.
 *
 * @param {HTMLElement} node
 * @param {{observation: object, touch: boolean, onBox: (box: Box) => void}} options `touch`: fingers draw, too, and do not
 *   scroll the page
 */
export function drawing(node, options) {
  const listeners = ({ observation, touch, onBox }) => ({
    exclusive: true,
    accepts: ({ pointerType }) => touch || pointerType !== "touch",
    drag: (end, start) => onBox(boxBetween(start.share, end.share, observation)),
  });
  const show = ({ touch }) => (node.style.touchAction = touch ? "none" : "");
  const { update, destroy } = dragging(node, listeners(options));
  show(options);
  return {
    update(next) {
      update(listeners(next));
      show(next);
    },
    destroy,
  };
}
