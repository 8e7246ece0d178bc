// The saliency maps that a frame shows, as an image over it.
import { recent } from "../../data/cache.js";
import { formatPercent } from "../shell/format.js";
import { mapIndex, mapOutputs, saliencyMap, saliencyScale, storedOutput } from "../../data/saliency.js";
import { loweringColor, saliencyColor } from "./colors.js";
import { composeSaliency, overlaySize } from "./saliency.js";

/** Choices of a reader: [value, label]. */
export const OUTPUTS = [
  ["both", "policy and value"],
  ["policy", "policy"],
  ["value", "value"],
];
export const SCALES = [
  ["trajectory", "of the episode"],
  ["frame", "of the frame"],
  ["all", "of all episodes"],
];
export const PALETTES = [
  ["standard", "standard"],
  ["safe", "for color-blind readers"],
];

/** Images that are kept: those of a few checkpoints. */
const KEPT = 24;

const compose = recent(
  ({ chunk, index, outputs, scales, centers, observation, palette }) =>
    composeSaliency({
      maps: outputs
        .map((output, i) => ({
          map: saliencyMap(chunk, output, index),
          scale: scales[i],
          color: saliencyColor(output, palette),
          negative: loweringColor(output, palette),
        }))
        .filter(({ map }) => map),
      centers,
      size: overlaySize(observation),
      region: observation.region,
    }),
  ({ chunk, index, outputs, scales, centers, palette }) => [
    ...[chunk.arrays, index, centers, palette],
    ...outputs,
    ...scales,
  ],
  KEPT,
);

/** The outputs that are shown over a frame. */
export function shownOutputs(chunk, overlay) {
  if (overlay === "none") return [];
  return (overlay === "both" ? ["policy", "value"] : [overlay]).map((output) => storedOutput(chunk, output));
}

/**
 * @param {object} options
 * @param {{arrays: object}} options.chunk the maps of an episode
 * @param {object} options.method that they are by
 * @param {number} options.frame
 * @param {number | null} options.trajectory whose largest value has full opacity; null with `common`
 * @param {Record<string, Record<string, number>> | null} [options.common] by scale and output what has full opacity, for maps that
 *   are not of the page's own trajectories
 * @param {{overlay: string, scale: string, palette: string}} options.selection
 * @param {object} options.observation of the agent
 * @returns {{image: {height: number, width: number, rgba: Uint8ClampedArray}, step: number, peaks: {output: string,
 *   share: number}[]} | null} and the step of the map, and its largest values as shares of the scale
 */
export function overlayImage({ chunk, method, frame, trajectory, common = null, selection, observation }) {
  const index = mapIndex(chunk, frame);
  if (index < 0) return null;
  const outputs = shownOutputs(chunk, selection.overlay);
  const scales = outputs.map((output) => {
    const map = saliencyMap(chunk, output, index);
    if (common && selection.scale !== "frame") return common[selection.scale][output] || 1;
    return saliencyScale(method, output, trajectory, selection.scale, map);
  });
  const { palette } = selection;
  const peaks = outputs.map((output, i) => ({
    output,
    share: (saliencyMap(chunk, output, index)?.scale ?? 0) / scales[i],
  }));
  const image = compose({ chunk, index, outputs, scales, centers: method.centers, observation, palette });
  return { image, step: chunk.arrays.steps.data[index], peaks };
}

/** Share of the scale below which a map counts as no reaction of the network. */
const LEAST = 0.01;

/** What the largest values of a map say, as shares of the scale. @param {{output: string, share: number}[]} peaks */
export const reactionText = (peaks) =>
  peaks.every(({ share }) => share < LEAST)
    ? "no reaction: below 1 %"
    : `largest: ${peaks.map(({ output, share }) => `${output} ${formatPercent(share)}`).join(", ")}`;

/**
 * The scales that maps of several networks on the same episode have in common, so that they can be compared.
 *
 * @param {({arrays: object} | null)[]} chunks of the maps
 * @returns {Record<string, Record<string, number>>} the largest value ("trajectory") and the 99th percentile of the maps' largest
 *   values ("all"), by output
 */
export function commonScales(chunks) {
  const all = chunks.flatMap((chunk) => (chunk ? [chunk.arrays] : []));
  const outputs = new Set(all.flatMap((arrays) => mapOutputs({ arrays })));
  const entries = [...outputs].map((output) => {
    const scales = all.flatMap((arrays) => [...(arrays[`scales.${output}`]?.data ?? [])]).sort((a, b) => a - b);
    return { output, most: scales.at(-1) ?? 0, usual: percentileOf(scales, 0.99) };
  });
  return {
    trajectory: Object.fromEntries(entries.map(({ output, most }) => [output, most])),
    all: Object.fromEntries(entries.map(({ output, usual }) => [output, usual])),
  };
}

/** A percentile of sorted numbers, as NumPy computes it. */
function percentileOf(sorted, share) {
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)] ?? 0;
  return below + (at - Math.floor(at)) * ((sorted[Math.ceil(at)] ?? below) - below);
}
