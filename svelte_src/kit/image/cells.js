// Cells of a grid on a frame: those of a layer divide the part that an observation shows evenly; those of a map whose centers
// are known end halfway between them.
import { memoized } from "../../data/cache.js";

const WHOLE = [0, 0, 1, 1];

/**
 * @typedef {{height: number, width: number, centers?: {rows: number[], columns: number[]}}} Grid
 * @typedef {{region?: number[]}} Frame `region`: top, left, bottom and right of what an observation shows, as shares of the frame
 */

/** The edges of a grid's cells, as shares of the frame: {rows, columns}, one more than there are cells. */
export const cellEdges = memoized((grid, region = WHOLE) => {
  const [top, left, bottom, right] = region;
  return {
    rows: edges(grid.centers?.rows, grid.height, top, bottom),
    columns: edges(grid.centers?.columns, grid.width, left, right),
  };
});

function edges(centers, count, low, high) {
  if (!centers) return Array.from({ length: count + 1 }, (_, i) => low + ((high - low) * i) / count);
  return [low, ...centers.slice(1).map((center, i) => (centers[i] + center) / 2), high];
}

/** The row and column of the cell at a point (shares of the frame); null outside of what the observation shows. */
export function cellUnder(grid, { region }, { x, y }) {
  const { rows, columns } = cellEdges(grid, region);
  const [row, column] = [indexOf(rows, y), indexOf(columns, x)];
  return row === null || column === null ? null : { row, column };
}

function indexOf(list, at) {
  const next = list.findIndex((edge) => edge > at);
  return next < 1 ? null : next - 1;
}

/** Where a cell lies: {left, top, width, height}, as shares of the frame. */
export function cellArea(grid, { region }, { row, column }) {
  const { rows, columns } = cellEdges(grid, region);
  return {
    left: columns[column],
    top: rows[row],
    width: columns[column + 1] - columns[column],
    height: rows[row + 1] - rows[row],
  };
}

/** The middle of a cell. */
export function cellMiddle(grid, frame, cell) {
  const { left, top, width, height } = cellArea(grid, frame, cell);
  return { x: left + width / 2, y: top + height / 2 };
}
