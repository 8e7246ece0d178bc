// The return, length, entropy or total saliency of all recorded episodes over training, by run.
import { methodNamed, methodsOf } from "../../data/saliency.js";

/** @typedef {{key: string, label: string, valueOf: (row: any) => number | null | undefined}} Curve */

/**
 * What curves can show of the episodes of a table; that of saliency is the mean total of an episode's maps by a method.
 *
 * @param {{runs: any[], rows: any[]}} table
 * @param {string} [method]
 * @returns {Curve[]} those of which at least one episode has a number; the return is always there
 */
export function curvesOf({ runs, rows }, method = methodsOf(runs)[0]?.name) {
  const known = runs.map((run) => methodNamed(run, method)).find(Boolean);
  const totals = (known?.outputs ?? []).map(({ id, label }) => ({
    key: `total-${id}`,
    label: `total saliency, ${label}`,
    valueOf: ({ totals }) => totals?.[method]?.[id],
  }));
  const curves = [
    { key: "return", label: "return", valueOf: (row) => row.return },
    { key: "length", label: "length", valueOf: ({ length }) => length },
    { key: "entropy", label: "entropy of the policy", valueOf: ({ entropy }) => entropy },
    ...totals,
  ];
  return curves.filter(({ key, valueOf }) => key === "return" || rows.some((row) => Number.isFinite(valueOf(row))));
}

/** Episodes in a rolling mean. */
const WINDOW = 10;

/** What all episodes have that tells when they were: training steps, or else their numbers. */
export const placeOf = (rows) => (rows.every(({ step }) => Number.isFinite(step)) ? "step" : "episode");

/**
 * The episodes of each run whose number is known, in the order of training, with the rolling mean of their numbers.
 *
 * @param {any[]} rows of the table
 * @param {(name: string) => boolean} isShown whether a run is, by its name
 * @param {Curve["valueOf"]} valueOf the number of an episode
 * @returns {{run: any, rows: any[], xs: number[], ys: number[], means: number[]}[]}
 */
export function curvesByRun(rows, isShown, valueOf = (row) => row.return) {
  const known = rows.filter((row) => Number.isFinite(valueOf(row)) && isShown(row.name));
  const place = placeOf(rows);
  return [...new Set(known.map(({ of }) => of))].map((run) => {
    const own = known.filter(({ of }) => of === run).sort((a, b) => a[place] - b[place]);
    const ys = own.map((row) => Number(valueOf(row)));
    return { run, rows: own, xs: own.map((row) => row[place]), ys, means: rollingMeans(ys) };
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
export const dotsPath = ({ xs, ys }, toX, toY) =>
  xs.map((x, i) => `M${toX(x).toFixed(1)} ${toY(ys[i]).toFixed(1)}h0`).join("");

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
