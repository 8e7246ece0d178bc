// The returns of all recorded episodes over training, by run.

/** Episodes in a rolling mean. */
const WINDOW = 10;

/** What all episodes have that tells when they were: training steps, or else their numbers. */
export const placeOf = (rows) => (rows.every(({ step }) => Number.isFinite(step)) ? "step" : "episode");

/**
 * The episodes of each run whose return is known, in the order of training, with the rolling mean of their returns.
 *
 * @param {any[]} rows of the table
 * @param {(name: string) => boolean} isShown whether a run is, by its name
 * @returns {{run: any, rows: any[], xs: number[], means: number[]}[]}
 */
export function returnsByRun(rows, isShown) {
  const known = rows.filter((row) => Number.isFinite(row.return) && isShown(row.name));
  const place = placeOf(rows);
  return [...new Set(known.map(({ of }) => of))].map((run) => {
    const own = known.filter(({ of }) => of === run).sort((a, b) => a[place] - b[place]);
    return { run, rows: own, xs: own.map((row) => row[place]), means: rollingMeans(own.map((row) => row.return)) };
  });
}

function rollingMeans(values) {
  let sum = 0;
  return values.map((value, i) => {
    sum += value - (i >= WINDOW ? values[i - WINDOW] : 0);
    return sum / Math.min(i + 1, WINDOW);
  });
}

/** A dot for each episode, as the data of one SVG path: thousands are drawn at once. */
export const dotsPath = ({ xs, rows }, toX, toY) =>
  xs.map((x, i) => `M${toX(x).toFixed(1)} ${toY(rows[i].return).toFixed(1)}h0`).join("");

/** The episode of a run that is nearest to a place in training. */
export function nearestRow({ xs, rows }, x) {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? rows[low - 1] : rows[low];
}
