// Lines over two axes: ticks, and paths for SVG.

/** Round numbers in a range, about so many. */
export function ticks([low, high], count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** A tick's number as text. */
export const tickText = (value) => String(Number(value.toPrecision(6))).replace("-", "\u2212");

/** A function from a range of numbers to pixels from `start` to `end`. */
export const scaleOf =
  ([low, high], start, end) =>
  (value) =>
    start + ((value - low) / (high - low || 1)) * (end - start);

const place = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

/**
 * A line as the data of an SVG path, broken where a number is missing. Points that share a pixel become their extremes.
 *
 * @param {ArrayLike<number> | null} xs ascending; null: 0, 1, ...
 * @param {ArrayLike<number>} ys
 */
export function linePath(xs, ys, toX, toY) {
  const parts = [];
  let pen = "M";
  for (const points of columnsOf(xs, ys, toX)) {
    if (!points) {
      pen = "M";
      continue;
    }
    for (const [x, y] of points) {
      parts.push(`${pen}${place(x, toY(y))}`);
      pen = "L";
    }
  }
  return parts.join("");
}

/** For each pixel the first point and the extremes of those in it, in their order; null where a number is missing. */
function* columnsOf(xs, ys, toX) {
  for (let i = 0; i < ys.length;) {
    if (!Number.isFinite(ys[i])) {
      yield null;
      i += 1;
      continue;
    }
    const x = toX(xs ? xs[i] : i);
    let [low, high, end] = [i, i, i + 1];
    for (; end < ys.length && Number.isFinite(ys[end]) && toX(xs ? xs[end] : end) < x + 1; end += 1) {
      if (ys[end] < ys[low]) low = end;
      if (ys[end] > ys[high]) high = end;
    }
    const kept = [...new Set([i, low, high])].sort((a, b) => a - b);
    yield kept.map((k) => [toX(xs ? xs[k] : k), ys[k]]);
    i = end;
  }
}

/** The area between two lines as the data of an SVG path. */
export function bandPath(xs, low, high, toX, toY) {
  const points = (ys) => [...columnsOf(xs, ys, toX)].flatMap((column) => column ?? []);
  const around = [...points(high), ...points(low).reverse()];
  return around.length ? `M${around.map(([x, y]) => place(x, toY(y))).join("L")}Z` : "";
}

/** The key of the line that is nearest to a point at an x, by height. @param {{key: any, xs, ys}[]} lines */
export function nearestLine(lines, x, y) {
  let nearest = null;
  let least = Infinity;
  for (const { key, xs, ys } of lines) {
    const distance = Math.abs(ys[indexAt(xs, ys.length, x)] - y);
    if (distance < least) [nearest, least] = [key, distance];
  }
  return nearest;
}

/** The index of the point nearest to an x. */
export function indexAt(xs, count, x) {
  if (!xs) return Math.max(0, Math.min(count - 1, Math.round(x)));
  let [low, high] = [0, count - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return x - xs[low] <= xs[high] - x ? low : high;
}
