// How good a simulator is: comparisons of its errors, in words.
import { formatNumber, formatPercent, numberRanges } from "../../kit/shell/format.js";

export const QUANTITIES = [
  { id: "frame", label: "frame" },
  { id: "state", label: "agent's state" },
  { id: "reward", label: "reward" },
];
export const PREDICTIONS = [
  { id: "posterior", label: "posterior", text: "sees the true frames" },
  { id: "prior", label: "prior", text: "imagines, with the true actions" },
  { id: "closed_loop", label: "closed loop", text: "imagines, and the agent acts in it" },
  { id: "last_frame", label: "copy of the last frame", text: "needs no simulator" },
  { id: "mean_frame", label: "mean frame", text: "needs no simulator" },
];
const LABELS = Object.fromEntries(PREDICTIONS.map(({ id, label }) => [id, label]));
/** Agreement of the compass that counts as good. */
export const GOOD_AGREEMENT = 0.8;

/** Horizons, from 1, at which a condition holds, of those where both errors are known: {held, count}. */
function compare(first, second, holds) {
  const known = first
    .map((_, h) => h + 1)
    .filter((h) => Number.isFinite(first[h - 1]) && Number.isFinite(second[h - 1]));
  return { held: known.filter((h) => holds(first[h - 1], second[h - 1])), count: known.length };
}

const horizons = ({ held, count }) => {
  if (!held.length) return "at no horizon";
  if (held.length === count) return count === 1 ? "at the only horizon" : `at all ${count} horizons`;
  return `at ${held.length === 1 ? "horizon" : "horizons"} ${numberRanges(held)} of ${count}`;
};

/** By how much an error is larger than another, with its interval; empty on pages without it. */
function excess(differences, smaller, larger) {
  const found = differences?.find((one) => one.smaller === smaller && one.larger === larger);
  if (!Number.isFinite(found?.difference)) return "";
  const [low, high] = found.interval.map((end) => formatNumber(end, 2));
  return `; mean difference ${formatNumber(found.difference, 2)} (95\u202f% interval ${low} to ${high})`;
}

/** Sentences about one quantity's errors: [{text, good}]. */
export function errorVerdicts(errors, quantity, differences = /** @type {any[]} */ ([])) {
  const means = Object.fromEntries(Object.entries(errors[quantity] ?? {}).map(([id, [mean]]) => [id, mean]));
  const sentences = [];
  for (const [id, other] of [
    ["prior", "last_frame"],
    ["prior", "mean_frame"],
    ["closed_loop", "last_frame"],
  ]) {
    if (!means[id] || !means[other]) continue;
    const better = compare(means[id], means[other], (a, b) => a < b);
    if (better.count)
      sentences.push({ text: `${LABELS[id]} beats the ${LABELS[other]} ${horizons(better)}${excess(differences, id, other)}`, good: better.held.length > better.count / 2 }); // prettier-ignore
  }
  for (const [id, other] of [
    ["posterior", "prior"],
    ["prior", "closed_loop"],
  ]) {
    if (!means[id] || !means[other]) continue;
    const ordered = compare(means[id], means[other], (a, b) => a <= b);
    if (ordered.count)
      sentences.push({ text: `the ${LABELS[id]}'s error is at most the ${LABELS[other]}'s ${horizons(ordered)}${excess(differences, id, other)}`, good: ordered.held.length === ordered.count }); // prettier-ignore
  }
  return sentences;
}

/** An interval of shares in words, empty if there is none. */
const between = (interval) =>
  Number.isFinite(interval?.[0]) ? ` (${formatPercent(interval[0])} to ${formatPercent(interval[1])})` : "";

/** An interval of numbers in words, empty if there is none. */
const numbers = (interval) =>
  Number.isFinite(interval?.[0]) ? ` (${interval.map((end) => formatNumber(end, 2)).join(" to ")})` : "";

/** Sentences about what is not an error by horizon: [{text, good}]. */
export function otherVerdicts({ quality, compass }) {
  const sentences = [];
  const known = (compass?.agreement ?? []).map((share, a) => ({
    ...{ share, label: compass.actions[a] },
    interval: compass.agreement_interval?.[a],
  }));
  const [good, bad] = [true, false].map((wanted) =>
    known.filter(({ share }) => Number.isFinite(share) && share >= GOOD_AGREEMENT === wanted),
  );
  const list = (actions) =>
    actions.map(({ label, share, interval }) => `${label} ${formatPercent(share)}${between(interval)}`).join(", ");
  if (good.length) sentences.push({ text: `the agent moves as the buttons say under ${list(good)}`, good: true });
  if (bad.length)
    sentences.push({
      text: `the agent moves as the buttons say in fewer than 80\u202f% of the starts under ${list(bad)}`,
      good: false,
    });
  if (Number.isFinite(quality?.auc))
    sentences.push({ text: `a classifier tells simulated states from recorded ones with an AUC of ${formatNumber(quality.auc, 2)}${numbers(quality.auc_interval)} (0.5: not at all, 1: always)`, good: quality.auc < 0.75 }); // prettier-ignore
  if (Number.isFinite(quality?.coverage))
    sentences.push({ text: `${formatPercent(quality.coverage)}${between(quality.coverage_interval)} of random latents are near one of 32 latents of the data`, good: quality.coverage > 0.5 }); // prettier-ignore
  if (quality?.deletion) {
    const [low, high] = quality.deletion.interval;
    sentences.push({ text: `removing what saliency through time points at changes the value by ${formatNumber(quality.deletion.difference, 3)} (${formatNumber(low, 3)} to ${formatNumber(high, 3)}) more than removing the same amount at random`, good: low > 0 }); // prettier-ignore
  }
  return sentences;
}
