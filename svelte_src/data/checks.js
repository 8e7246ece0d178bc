// What sanity checks found about a method of saliency, in sentences.
import { formatNumber } from "../kit/shell/format.js";

/** Without checks on the page. */
export const UNCHECKED = "The maps of this method were not checked for this page; the analysis “checks” tests them.";

/**
 * @param {{methods: any[]} | null | undefined} report that of the section `checks`
 * @param {string} method name
 * @returns {{text: string, failed: boolean} | null} null for a method that was not checked
 */
export function checkOf(report, method) {
  const found = report?.methods.find((one) => one.method === method);
  if (!found) return null;
  const { randomization, deletion, depends_on_parameters: depends, beats_random: beats } = found;
  const rank = randomization.at(-1)?.rank_correlation;
  const signed = randomization.at(-1)?.signed_rank_correlation ?? 1;
  const { mean, low, high } = deletion.above_random;
  const numbers = `${formatNumber(mean, 2)}, ${formatNumber(low, 2)} to ${formatNumber(high, 2)}`;
  const weights =
    rank === undefined
      ? "They were not compared with maps from random weights."
      : `They ${depends ? "change" : "stay similar"} when all weights are random (rank correlation ${formatNumber(rank, 2)}${
          depends || signed >= 0.5 ? "" : `; with signs ${formatNumber(signed, 2)}, so the signs were learned`
        }).`;
  return {
    text: `${weights} Removing pixels in the maps' order changes the output ${beats ? "faster" : "no faster"} than in a random order (${numbers}).`,
    failed: !beats || (rank !== undefined && !depends),
  };
}
