// Where the tour's box stands, so that it covers nothing of the panel that it speaks of.

const MARGIN = 12;
/** Widths of the box: the usual one, and that of a column beside the middle of the page. */
const WIDTHS = [360, 188];

/** @typedef {{left: number, top: number, width: number, height: number}} Box in pixels of the window */

const overlap = (a, b) =>
  Math.max(0, Math.min(a.left + a.width, b.left + b.width) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.top + a.height, b.top + b.height) - Math.max(a.top, b.top));

/**
 * The corner of the window, and the width, with the least of the panel below the box; of equal ones the first, at the lower right.
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
  return places.reduce((best, place) => (overlap(place, panel) < overlap(best, panel) ? place : best));
}
