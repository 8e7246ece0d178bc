// What a row shows of a method of saliency, whose outputs stand in place of a layer's features.
import { memoized } from "../../data/cache.js";
import { mapIndex, saliencyMap, saliencyScale, segmentOfMap } from "../../data/saliency.js";
import { overlaySize } from "../../kit/image/saliency.js";
import { commonRange } from "../../kit/shell/embedding.js";
import { shownChannels } from "./channels.js";
import { rowTarget } from "./rows.js";

export const isSaliency = (layer) => layer?.kind === "saliency";

/** The name of the chunk that has the map a target shows. */
export function saliencyChunk(manifest, { layer, trajectory, frame }) {
  const { maps, every } = manifest.layers[layer];
  return maps[trajectory]?.[segmentOfMap(frame, every, manifest.segment)];
}

const mapsOf = memoized((chunk, key) => {
  const [output, index] = key.split("/");
  return saliencyMap(chunk, output, Number(index));
});

/** The maps of all outputs that a target shows, null where they are constant; null while their chunk is not loaded. */
export function targetMaps({ manifest, chunks }, target) {
  const chunk = chunks.peek(saliencyChunk(manifest, target));
  const index = chunk ? mapIndex(chunk, target.frame) : -1;
  return index < 0
    ? null
    : {
        step: chunk.arrays.steps.data[index],
        maps: manifest.layers[target.layer].outputs.map(({ id }) => mapsOf(chunk, `${id}/${index}`)),
      };
}

/** What has full opacity in the map of an output: as the selection says, of the rows that are compared, the largest. */
function scaleOf({ manifest, selection }, target, output, map) {
  const layer = manifest.layers[target.layer];
  const { scale, rows } = selection.now;
  if (scale !== "rows" || !rows) return saliencyScale(layer, output, target.trajectory, scale, map);
  const compared = rows
    .map((row) => rowTarget(manifest, selection.now, row))
    .filter((other) => other.layer === target.layer);
  const own = (one) => saliencyScale(layer, output, one.trajectory, "trajectory", map);
  return Math.max(own(target), ...compared.map(own));
}

/** The name of the scale of a layer's images, of outputs with one unit. */
export const mapKey = ({ slug }, unit) => `map/${slug}/${unit}`;

/** Scales of a target's maps by name, without those of a page beside this one: empty while their chunk is not loaded. */
export function ownMapScales(page, target) {
  const layer = page.manifest.layers[target.layer];
  const shown = targetMaps(page, target);
  const entry = ({ id }, k) => [mapKey(layer, id), [0, scaleOf(page, target, id, shown?.maps[k])]];
  return shown ? Object.fromEntries(layer.outputs.map(entry)) : {};
}

/** What `composeImage` makes a target's image of; null while its chunk is not loaded. */
export function saliencyOptions(page, { target, isolated, colors }) {
  const { manifest, selection } = page;
  const layer = manifest.layers[target.layer];
  const shown = targetMaps(page, target);
  if (!shown) return null;
  const { chosen } = shownChannels(selection.now, layer, target.layer, isolated);
  const maps = chosen
    .filter((k) => shown.maps[k])
    .map((k) => {
      const map = shown.maps[k];
      const { id } = layer.outputs[k];
      return {
        output: k,
        map,
        scale: commonRange(page.partner?.now, mapKey(layer, id), [0, scaleOf(page, target, id, map)])[1],
        color: colors[k].color,
        negative: colors[k].negative,
      };
    });
  return {
    maps,
    chosen,
    step: shown.step,
    centers: layer.centers,
    size: overlaySize(manifest.observation),
    region: manifest.observation.region,
    threshold: selection.now.threshold,
  };
}

/** The values of a target's maps, as those of a layer's features: {data (height * width * outputs), depth}. */
export function saliencyValues(page, target) {
  const shown = targetMaps(page, target);
  if (!shown) return null;
  const { height, width, channels: depth } = page.manifest.layers[target.layer];
  const data = new Float32Array(height * width * depth);
  shown.maps.forEach((map, k) => map?.data.forEach((value, i) => (data[i * depth + k] = value)));
  return { data, depth };
}

/**
 * The sum of an output's map at every step of a trajectory; a step without a map has that of the last one before it.
 *
 * @param {Pick<import("../../types").Page, "manifest" | "chunks">} page
 * @param {any} layer
 * @param {string} output its id
 * @param {number} trajectory
 * @param {import("./box.js").Box | null} [box] only of the cells whose centers are inside
 * @returns {Promise<Float32Array>} (T)
 */
export async function saliencyTotals({ manifest, chunks }, layer, output, trajectory, box = null) {
  const { steps } = manifest.trajectories[trajectory];
  const totals = new Float32Array(steps);
  const cells = box && cellsIn(box, manifest.observation, layer);
  const sumOf = (chunk, i) => {
    if (!cells) return chunk.arrays[`totals.${output}`].data[i];
    const map = saliencyMap(chunk, output, i);
    return map ? cells.reduce((sum, cell) => sum + Math.abs(map.data[cell]), 0) : 0;
  };
  for (const name of layer.maps[trajectory]) {
    const chunk = await chunks.get(name);
    chunk.arrays.steps.data.forEach((step, i) => totals.fill(sumOf(chunk, i), step));
  }
  return totals;
}

/** The cells of a map, row by row, whose centers are in a box. */
export function cellsIn({ left, top, right, bottom }, { frame_width: width, frame_height: height }, { centers }) {
  const within = (list, low, high) => [...list.keys()].filter((i) => list[i] >= low && list[i] < high);
  const columns = within(centers.columns, left / width, right / width);
  return within(centers.rows, top / height, bottom / height).flatMap((row) =>
    columns.map((column) => row * centers.columns.length + column),
  );
}
