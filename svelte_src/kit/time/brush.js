// A brush: the set of {checkpoint, episode, step} that the reader has marked, as ranges of steps for each episode. Searches,
// lassos and ranges write it; every track draws it.

/** @typedef {Map<string, number[][]>} Brush ranges [first, last] of steps, apart and in order, by checkpoint and episode */

/** @type {Brush} */
export const EMPTY = new Map();
const NONE = [];
const keyOf = (checkpoint, episode) => `${checkpoint}/${episode}`;

/** @param {Iterable<{checkpoint?: string, episode: number, step: number}>} points @returns {Brush} */
export function brushOf(points) {
  const steps = new Map();
  for (const { checkpoint = "", episode, step } of points) {
    const key = keyOf(checkpoint, episode);
    if (steps.has(key)) steps.get(key).push([step, step]);
    else steps.set(key, [[step, step]]);
  }
  return new Map([...steps].map(([key, ranges]) => [key, joined(ranges)]));
}

/** A brush with a range of steps added. @returns {Brush} */
export function withRange(brush, { checkpoint = "", episode, first, last }) {
  const key = keyOf(checkpoint, episode);
  return new Map(brush).set(key, joined([...(brush.get(key) ?? NONE), [Math.min(first, last), Math.max(first, last)]]));
}

/** The marked ranges of an episode: the same array for as long as the brush is the same. @returns {number[][]} */
export const rangesIn = (brush, checkpoint, episode) => brush.get(keyOf(checkpoint, episode)) ?? NONE;

export const isMarked = (brush, { checkpoint = "", episode, step }) =>
  rangesIn(brush, checkpoint, episode).some(([first, last]) => first <= step && step <= last);

/** The marked steps of each episode. @returns {{checkpoint: string, episode: number, steps: number[]}[]} */
export const markedSteps = (brush) =>
  [...brush].map(([key, ranges]) => {
    const cut = key.lastIndexOf("/");
    const steps = ranges.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
    return { checkpoint: key.slice(0, cut), episode: Number(key.slice(cut + 1)), steps };
  });

/** Ranges in order, those that touch or overlap as one. */
function joined(ranges) {
  const result = [];
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const before = result.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else result.push([first, last]);
  }
  return result;
}
