// What an intervention says of its primary measure, which is the first row, the return: an effect with its interval, or the
// smallest one that would have been found.
import { detectable } from "../../data/causal.js";
import { formatNumber } from "../../kit/shell/format.js";

const LEVEL = 0.05;

/** The smallest p of a test that flips signs of pairs. */
export const smallestP = (pairs) => 2 ** (1 - pairs);

/** @param {any} intervention entry of the section @param {number} pairs of episodes */
export function interventionText({ label, rows: [primary, ...others] }, pairs) {
  const [low, high] = primary.interval.map((end) => formatNumber(end, 3));
  const numbers = `${primary.measure} ${formatNumber(primary.unedited, 3)} without, ${formatNumber(primary.edited, 3)} with the change, difference ${formatNumber(primary.difference, 3)} (95% interval ${low} to ${high}), p ${formatNumber(primary.p, 2)} for this measure alone`;
  const start = `${label}, ${pairs} pairs of episodes. Primary measure: ${numbers}.`;
  const clear = others.filter(({ adjusted_p: p }) => Number.isFinite(p) && p < LEVEL).map(({ measure }) => measure);
  const more = clear.length ? ` Descriptive measures that differ beyond chance: ${clear.join(", ")}.` : "";
  if (smallestP(pairs) >= LEVEL)
    return `${start} So few pairs cannot show a change: the smallest possible p is ${formatNumber(smallestP(pairs), 3)}. Use more pairs (--interventions.episodes).`;
  if (primary.p < LEVEL) return `${start} It changes beyond chance.${more}`;
  const least = detectable({ interval: primary.interval });
  const seen =
    least === undefined
      ? `the ${primary.measure} was the same in both episodes of each pair`
      : `a true change of ${formatNumber(least, 2)} or more would have been found in four of five cases`;
  return `${start} No change was found; ${seen}.${more}`;
}
