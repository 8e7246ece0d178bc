// Measured effects of the causes of a window, beside the estimates of its map (docs/page-format.md, "Section windows").
import { formatNumber } from "../../kit/shell/format.js";
import { part } from "./windows.js";

/** Causes count from this share of the largest one of their window and target. */
const MATERIAL = 0.05;

const sizeOf = (estimated, measured) => Math.max(Math.abs(estimated), Math.abs(measured));

/** A measured effect disagrees with its estimate if they differ by more than half of the larger one. */
const disagrees = (estimated, measured) => Math.abs(estimated - measured) > sizeOf(estimated, measured) / 2;

/**
 * The strongest causes of a target through memory, whose frames were replaced, by their steps in the window.
 *
 * @typedef {{mean: number, spread: number}} OverPartners mean and standard deviation over other episodes
 * @returns {Map<number, {estimated: number, measured: number, disagrees: boolean, small: boolean, mean: number, partners: number,
 *   partner: OverPartners, nats: OverPartners}>}
 *   `measured`: with the frame that the map compares with; `mean`: with the mean frame; `partner`: with the frames of
 *   `partners` other episodes; `nats`: change of the policy with those
 */
export function replacements(arrays, window, target) {
  const index = window.targets.indexOf(target);
  if (index < 0 || !arrays["replaced.frames"]) return new Map();
  const sums = part(arrays["memory.sums"], index);
  const measuredAt = (name, k) => part(arrays[`replaced.${name}`], index)[k];
  const overPartners = (name, k) => ({ mean: measuredAt(name, k), spread: measuredAt(`${name}.spread`, k) });
  const causes = Array.from(part(arrays["replaced.frames"], index), (place, k) => {
    const [estimated, measured] = [sums[place], measuredAt("change", k)];
    return { place, k, estimated, measured, size: sizeOf(estimated, measured) };
  }).filter(({ place }) => place >= 0);
  const least = MATERIAL * Math.max(...causes.map(({ size }) => size));
  return new Map(
    causes.map(({ place, k, estimated, measured, size }) => {
      const small = !(size >= least);
      const effect = {
        ...{ estimated, measured, small, disagrees: !small && disagrees(estimated, measured) },
        mean: measuredAt("mean", k),
        partners: measuredAt("partners", k),
        partner: overPartners("partner", k),
        nats: overPartners("partner.policy", k),
      };
      return [place, effect];
    }),
  );
}

/**
 * What a measured cause says about the map, as one of these: "disagrees"; "more": frames of other episodes change the target
 * far more than the one that the map compares with; "unclear": their effects differ as much as they are large.
 */
export function doubt({ disagrees: differs, small, measured, partners, partner: { mean, spread } }) {
  if (differs) return "disagrees";
  if (small || partners < 2) return "";
  if (Math.abs(mean) < spread) return "unclear";
  return Math.abs(mean) > 3 * Math.abs(measured) ? "more" : "";
}

/** What the frames of other episodes and the mean frame change, in words; "" if there is no other episode. */
export function partnersText({ mean, partners, partner, nats }) {
  if (!partners) return "";
  const number = ({ mean, spread }) =>
    formatNumber(mean, 2) + (partners > 1 ? ` \u00b1 ${formatNumber(spread, 2)}` : "");
  const frames =
    partners > 1
      ? `the frames of ${partners} other episodes (\u00b1 standard deviation)`
      : "the frame of another episode";
  return `; ${number(partner)} with ${frames}, by which the policy changes by ${number(nats)} nats; ${formatNumber(mean, 2)} with the mean frame`;
}

/**
 * What all frames of a window change a target by, compared with those of the partner, and the sum of the map; null where it
 * was not computed.
 *
 * @returns {{sum: number, change: number, fails: boolean} | null} `fails`: they differ by more than half of the larger one
 */
export function completeness(arrays, window, target, path) {
  const index = window.targets.indexOf(target);
  const [sums, changes] = ["sums", "change"].map((name) => arrays[`${path}.${name}`]);
  if (index < 0 || !sums || !changes) return null;
  const [sum, change] = [part(sums, index).reduce((total, value) => total + value, 0), changes.data[index]];
  return { sum, change, fails: disagrees(sum, change) };
}
