// Where the tour's box stands, so that it covers nothing of the panel that it speaks of.

const MARGIN = 12;
/** Widths of the box: the usual one, and that of a column beside the middle of the page. */
const WIDTHS = [360, 188];

/** @typedef {{left: number, top: number, width: number, height: number}} Box in pixels of the window */

const apart = (a, b) =>
  a.left + a.width <= b.left || b.left + b.width <= a.left || a.top + a.height <= b.top || b.top + b.height <= a.top;

/**
 * The first corner of the window, and width, where the box covers nothing of the panel; the lower right, below the panel's title,
 * where the panel leaves no room.
 *
 * @param {Box} panel
 * @param {{width: number, height: number}} window
 * @param {number} area of the box's content, which is as high as its width makes it
 * @returns {Box}
 */
export function tourPlace(panel, { width: wide, height: high }, area) {
  const places = WIDTHS.flatMap((most) => {
    const width = Math.min(most, wide - 2 * MARGIN);
    const height = Math.min(area / width, high - 2 * MARGIN);
    const [right, bottom] = [wide - MARGIN - width, high - MARGIN - height];
    return [
      [right, bottom],
      [MARGIN, bottom],
      [right, MARGIN],
      [MARGIN, MARGIN],
    ].map(([left, top]) => ({ left, top, width, height }));
  });
  return places.find((place) => apart(place, panel)) ?? places[0];
}
