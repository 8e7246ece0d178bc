// Whether the page's attribution predicts the measured effects of objects, and why it has its baseline, in sentences.
import { formatNumber, formatPercent } from "../kit/shell/format.js";
import { rounded } from "./actions.js";

const UNKNOWN =
  "Whether attribution predicts the effects of objects is not known for this agent, because these effects were not measured. Measuring them requires an environment whose states can be edited, and episodes that were not recorded elsewhere. docs/truth.md has the numbers for other agents.";

/**
 * @param {import("./sections").AgreementSection | null | undefined} agreement
 * @param {{key: string, name: string} | undefined} layer
 * @returns {string} such as "Attribution at 2b has the same sign as the measured effect for 93 % (90 to 96) of the 125 ..."
 */
export function agreementText(agreement, layer) {
  const found = agreement?.layers.find((one) => one.layer === layer?.key);
  if (!agreement || !found || !layer) return UNKNOWN;
  const { signs, correlation } = found;
  const close = correlation.value === null ? "" : ` The correlation with the effects is ${decimals(correlation)}.`;
  const above = `by more than ${formatNumber(agreement.threshold, 2)}`;
  if (signs.value === null) {
    return `${agreement.large} of ${agreement.count} measured objects change the output ${above}, too few to compare signs.${close}`;
  }
  const bounds = signs.low === null || signs.high === null ? "" : ` (${percent(signs.low)} to ${percent(signs.high)})`;
  return `Attribution at ${layer.name} has the same sign as the measured effect for ${formatPercent(signs.value)}${bounds} of the ${agreement.large} objects that change the output ${above}.${close}`;
}

const percent = (share) => String(Math.round(100 * share));

const decimals = ({ value, low, high }) =>
  low === null ? rounded(value) : `${rounded(value)} (${rounded(low)} to ${rounded(high)})`;

const PLACES = {
  "zero-input": "an image of zeros",
  blur: "the blurred observation",
  "narrow-blur": "the slightly blurred observation",
  mean: "the mean over many observations",
};

/**
 * @param {import("./sections").BaselineSection | null | undefined} choice
 * @returns {string} why the page's baseline was chosen; empty if it was not chosen by measured effects
 */
export function baselineText(choice) {
  if (!choice) return "";
  const [usual] = choice.candidates;
  const chosen = choice.candidates.find((one) => one.baseline === choice.chosen);
  const others = `${choice.count} objects in ${choice.episodes} other episodes`;
  const start = `The baseline, ${PLACES[choice.chosen] ?? choice.chosen}, was chosen with the measured effects of ${others}`;
  if (!chosen?.advantage || chosen === usual) return `${start}: no other baseline predicts them clearly better.`;
  const [low, high] = chosen.advantage.map(rounded);
  const [first, second] = [chosen, usual].map(({ correlation }) => formatNumber(correlation, 2));
  return `${start}. At ${choice.layer}, the correlation with these effects is ${first}, and ${formatPercent(chosen.signs)} of the signs are right. With ${PLACES[usual.baseline]}, it is ${second}, and ${formatPercent(usual.signs)} are right. The mean of the two numbers is higher by ${low} to ${high}.`;
}
