// The saliency maps that a frame shows, as an image over it.
import { recent } from "../../data/cache.js";
import { mapIndex, saliencyMap, saliencyScale, storedOutput } from "../../data/saliency.js";
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
 * @param {number | null} options.trajectory whose largest value has full opacity; null: that of the chunk
 * @param {{overlay: string, scale: string, palette: string}} options.selection
 * @param {object} options.observation of the agent
 * @returns {{image: {height: number, width: number, rgba: Uint8ClampedArray}, step: number, peaks: {output: string,
 *   share: number}[]} | null} and the step of the map, and its largest values as shares of the scale
 */
export function overlayImage({ chunk, method, frame, trajectory, selection, observation }) {
  const index = mapIndex(chunk, frame);
  if (index < 0) return null;
  const outputs = shownOutputs(chunk, selection.overlay);
  const scales = outputs.map((output) => {
    const map = saliencyMap(chunk, output, index);
    if (trajectory === null && selection.scale === "trajectory") return largestScale(chunk, output);
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

const largestScale = ({ arrays }, output) =>
  arrays[`scales.${output}`]?.data.reduce((most, scale) => Math.max(most, scale), 0) || 1;
