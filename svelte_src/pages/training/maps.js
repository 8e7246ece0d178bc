// What the saliency maps of an episode say of regions of the image.
import { memoized, recent } from "../../data/cache.js";
import { storedOutput } from "../../data/saliency.js";

/** The edges of cells along one side, as shares of the frame: halfway between centers. */
export function cellEdges(centers) {
  const last = centers.length - 1;
  const step = last > 0 ? (centers[last] - centers[0]) / last : 1;
  const between = centers.slice(1).map((center, i) => (center + centers[i]) / 2);
  return [Math.max(0, centers[0] - step / 2), ...between, Math.min(1, centers[last] + step / 2)];
}

/** The boxes of regions, [top, left, bottom, right] as shares of the frame: those that were drawn, or a grid over the maps. */
export function regionBoxes(centers, { rows, columns, boxes }) {
  if (boxes.length) return boxes;
  const cut = (edges, parts) =>
    Array.from({ length: parts + 1 }, (_, i) => edges[Math.round((i * (edges.length - 1)) / parts)]);
  const [ys, xs] = [cut(cellEdges(centers.rows), rows), cut(cellEdges(centers.columns), columns)];
  return Array.from({ length: rows * columns }, (_, k) => {
    const [row, column] = [Math.floor(k / columns), k % columns];
    return [ys[row], xs[column], ys[row + 1], xs[column + 1]];
  });
}

/** Of each region the cells whose center lies in it; a center on a border belongs to the region below or right of it. */
export function regionCells(centers, regions) {
  return regionBoxes(centers, regions).map(([top, left, bottom, right]) => {
    const inside = (at, low, high) => at >= low && (at < high || (high >= 1 && at <= 1));
    return centers.rows.flatMap((y, row) =>
      centers.columns.flatMap((x, column) =>
        inside(y, top, bottom) && inside(x, left, right) ? [row * centers.columns.length + column] : [],
      ),
    );
  });
}

/** What a region is called. */
export function regionName({ rows, columns, boxes, names }, k) {
  if (names[k]) return names[k];
  if (boxes.length) return `box ${k + 1}`;
  if (rows * columns === 1) return "all";
  const row = ["top", "bottom"][rows === 2 ? Math.floor(k / columns) : -1] ?? `row ${Math.floor(k / columns) + 1}`;
  const column = ["left", "right"][columns === 2 ? k % columns : -1] ?? `column ${(k % columns) + 1}`;
  if (rows === 1) return column;
  return columns === 1 ? row : `${row} ${column}`;
}

/**
 * The share of each region in the sum of a map's magnitudes; 0 where a map is constant.
 *
 * @param {{data: ArrayLike<number>, shape: number[]}} codes (m, rows, columns)
 * @param {string} cells of each region, a list of lists as JSON
 * @returns {Float64Array[]} for each region m shares
 */
export const regionShares = memoized(({ data, shape: [count, rows, columns] }, cells) => {
  const regions = JSON.parse(cells);
  const size = rows * columns;
  const shares = regions.map(() => new Float64Array(count));
  for (let m = 0; m < count; m += 1) {
    let total = 0;
    for (let i = m * size; i < (m + 1) * size; i += 1) total += Math.abs(data[i]);
    if (total === 0) continue;
    regions.forEach((list, k) => {
      let sum = 0;
      for (const cell of list) sum += Math.abs(data[m * size + cell]);
      shares[k][m] = sum / total;
    });
  }
  return shares;
});

/** The same of the policy's or the value's maps; null where there are none. */
export function sharesOf(maps, output, centers, regions) {
  const codes = maps.arrays[`codes.${storedOutput(maps, output)}`];
  return codes ? regionShares(codes, JSON.stringify(regionCells(centers, regions))) : null;
}

/** The total of each map of the policy or the value; null where there are none. @returns {ArrayLike<number> | null} */
export const totalsOf = (maps, output) => maps.arrays[`totals.${storedOutput(maps, output)}`]?.data ?? null;

/** The center of each map's magnitudes in a region, from the left and from the top; NaN where there are none. */
export function positionsOf(maps, output, centers, regions, k) {
  const codes = maps.arrays[`codes.${storedOutput(maps, output)}`];
  return codes ? regionPositions(codes, JSON.stringify([centers, regionCells(centers, regions)[k]])) : null;
}

const regionPositions = memoized(({ data, shape: [count, rows, columns] }, place) => {
  const [centers, cells] = JSON.parse(place);
  const [x, y] = [new Float64Array(count), new Float64Array(count)];
  for (let m = 0; m < count; m += 1) {
    let sum = 0;
    for (const cell of cells) {
      const magnitude = Math.abs(data[m * rows * columns + cell]);
      sum += magnitude;
      x[m] += magnitude * centers.columns[cell % columns];
      y[m] += magnitude * centers.rows[Math.floor(cell / columns)];
    }
    x[m] /= sum;
    y[m] /= sum;
  }
  return { x, y };
});

/** The cell of each map's largest magnitude, -1 where a map is constant. */
export const mapPeaks = memoized(({ data, shape: [count, rows, columns] }) => {
  const size = rows * columns;
  return Int32Array.from({ length: count }, (_, m) => {
    let [peak, most] = [-1, 0];
    for (let i = 0; i < size; i += 1) {
      const magnitude = Math.abs(data[m * size + i]);
      if (magnitude > most) [most, peak] = [magnitude, i];
    }
    return peak;
  });
});

/** Mean, smallest and largest of each number and those before it, `window` at most together. */
export function rolling(values, window) {
  const mean = new Float64Array(values.length);
  const low = new Float64Array(values.length);
  const high = new Float64Array(values.length);
  for (let i = 0; i < values.length; i += 1) {
    const part = values.subarray(Math.max(0, i - window + 1), i + 1);
    mean[i] = part.reduce((sum, value) => sum + value, 0) / part.length;
    low[i] = Math.min(...part);
    high[i] = Math.max(...part);
  }
  return { mean, low, high };
}

/** Places in a list of shares at which they pass a part of their largest one. */
export function passes(shares, threshold) {
  const limit = threshold * shares.reduce((most, share) => Math.max(most, share), 0);
  const above = (i) => shares[i] > 0 && shares[i] >= limit;
  return Array.from(shares.keys()).filter((i) => above(i) && (i === 0 || !above(i - 1)));
}

/** Results that are kept: those of the chosen checkpoints. */
const KEPT = 24;

/**
 * The steps at which each region's share of the value's saliency passes a part of its largest.
 *
 * @param {object} maps chunk of the maps
 * @param {{centers: object}} method that they are by
 * @param {object} regions
 * @param {number} threshold
 * @returns {number[][] | null}
 */
export const momentsOf = (maps, method, regions, threshold) => momentsAt([maps, method, regions, threshold]);

const momentsAt = recent(
  ([maps, { centers }, regions, threshold]) =>
    sharesOf(maps, "value", centers, regions)?.map((share) =>
      passes(share, threshold).map((at) => maps.arrays.steps.data[at]),
    ) ?? null,
  (all) => all,
  KEPT,
);
