// Images of saliency maps: one color an output, bilinear between the centers of cells, constant beyond the last.
import { memoized } from "../../data/cache.js";
import { parseHex } from "./colors.js";

/** Longest side of an image; grids are much coarser. */
const MOST = 256;
const WHOLE = [0, 0, 1, 1];
const NOTHING = new Float32Array(0);

/**
 * For each of `size` pixels along an axis the two cells that it lies between: the first, and the share of the second.
 *
 * @param {number[]} centers positions of the cells' centers, as shares of the axis
 * @returns {{first: Uint16Array, share: Float32Array}}
 */
export function axisWeights(centers, size) {
  const first = new Uint16Array(size);
  const share = new Float32Array(size);
  for (let pixel = 0, cell = 0; pixel < size; pixel += 1) {
    const position = (pixel + 0.5) / size;
    while (cell < centers.length - 2 && centers[cell + 1] <= position) cell += 1;
    const gap = centers[cell + 1] - centers[cell];
    first[pixel] = cell;
    share[pixel] = gap > 0 ? Math.min(1, Math.max(0, (position - centers[cell]) / gap)) : 0;
  }
  return { first, share };
}

const weightsOf = memoized(axisWeights);

/**
 * The values of a map at every pixel of an image.
 *
 * @param {import("../../data/saliency.js").SaliencyMap} map
 * @param {{rows: number[], columns: number[]}} centers
 * @returns {Float32Array} (height * width)
 */
export function interpolate({ data, height: rows, width: columns }, centers, { height, width }) {
  const [y, x] = [weightsOf(centers.rows, height), weightsOf(centers.columns, width)];
  const image = new Float32Array(height * width);
  const line = new Float32Array(columns + 1);
  for (let row = 0, at = 0; row < height; row += 1) {
    const start = y.first[row] * columns;
    const next = Math.min(y.first[row] + 1, rows - 1) * columns;
    for (let column = 0; column < columns; column += 1) {
      line[column] = data[start + column] + y.share[row] * (data[next + column] - data[start + column]);
    }
    line[columns] = line[columns - 1];
    for (let column = 0; column < width; column += 1, at += 1) {
      const cell = x.first[column];
      image[at] = line[cell] + x.share[column] * (line[cell + 1] - line[cell]);
    }
  }
  return image;
}

/** The size of the image over a frame. */
export function overlaySize({ frame_height: height, frame_width: width }) {
  const factor = Math.min(1, MOST / Math.max(height, width));
  return { height: Math.max(1, Math.round(height * factor)), width: Math.max(1, Math.round(width * factor)) };
}

/**
 * @typedef {object} SaliencyComposition
 * @property {{map: import("../../data/saliency.js").SaliencyMap, scale: number, color: string, negative?: string}[]} maps of one
 *   or several outputs, without those that are null; `negative`: the color of negative values
 * @property {{rows: number[], columns: number[]}} centers
 * @property {{height: number, width: number}} size of the image
 * @property {number[]} [region] top, left, bottom, right of what the observation shows, as shares of the frame
 * @property {number} [threshold] less opacity than this is none
 */

/** All that an image depends on. */
export const saliencyKey = ({ maps, centers, size, region, threshold }) => [
  centers,
  size.height,
  size.width,
  String(region),
  threshold,
  ...maps.flatMap(({ map, scale, color }) => [map, scale, color]),
];

/**
 * Compose one image: a position has as much opacity as it would have with one map over the other, and the mean of their colors,
 * weighted by opacity.
 *
 * @param {SaliencyComposition} options
 * @returns what `composeImage` returns; nothing is marked
 */
export function composeSaliency({ maps, centers, size, region, threshold = 0 }) {
  const { height, width } = size;
  const layers = maps.map(({ map, scale, color, negative = color }) => ({
    values: interpolate(map, centers, size),
    scale,
    colors: [color, negative].map(parseHex),
  }));
  const [top, left, bottom, right] = (region ?? WHOLE).map((share, i) => share * (i % 2 ? width : height) - 0.5);
  const rgba = new Uint8ClampedArray(height * width * 4);
  for (let row = Math.ceil(top); row <= bottom; row += 1) {
    for (let column = Math.ceil(left); column <= right; column += 1) {
      if (row >= height || column >= width) continue;
      const at = row * width + column;
      let [seen, sum, red, green, blue] = [1, 0, 0, 0, 0];
      for (const { values, scale, colors } of layers) {
        const rgb = colors[values[at] < 0 ? 1 : 0];
        const alpha = Math.min(1, Math.abs(values[at]) / scale);
        if (alpha < threshold) continue;
        seen *= 1 - alpha;
        sum += alpha;
        red += alpha * rgb[0];
        green += alpha * rgb[1];
        blue += alpha * rgb[2];
      }
      if (!sum) continue;
      rgba[4 * at] = red / sum;
      rgba[4 * at + 1] = green / sum;
      rgba[4 * at + 2] = blue / sum;
      rgba[4 * at + 3] = 255 * (1 - seen);
    }
  }
  const premultiplied = () =>
    Float32Array.from(rgba, (level, i) => (level / 255) * (i % 4 === 3 ? 1 : rgba[i - (i % 4) + 3] / 255));
  return { height, width, rgba, premultiplied, residual: NOTHING, clipped: [] };
}
