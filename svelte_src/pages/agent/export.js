// Files of what is shown. Everything drawn here comes from chunks, so that canvases can be read.
import { get } from "svelte/store";
import { outputSeries, totalsAt } from "../../data/series.js";
import { encodeApng } from "../../kit/image/apng.js";
import { composeImage, makeGrey } from "../../kit/image/compose.js";
import { outputName, toCsv } from "../../kit/shell/format.js";
import { attributionChunk, overlayOf } from "./image.js";
import { firstTarget } from "./selection.js";

const GAP = 4;

/** The first row of a frame on a canvas: observation, then each sign. */
async function paint(page, frame, scale) {
  const { manifest, selection, chunks, frames } = page;
  const now = { ...selection.now, frame };
  const target = firstTarget(manifest, now);
  if (target.past) throw new Error(`Trajectory ${target.trajectory + 1} has ended before frame ${frame + 1}.`);
  const bitmap = await frames.get(target.trajectory, frame);
  const name = attributionChunk(manifest, target);
  if (name) await chunks.get(name);
  const colors = get(page.colors)[target.layer];
  const signs = name ? (now.combined ? ["abs"] : ["pos", "neg"]) : [];
  const [width, height] = [bitmap.width * scale, bitmap.height * scale];
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: width + signs.length * (width + GAP), height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingEnabled = false;
  context.drawImage(bitmap, 0, 0, width, height);
  signs.forEach((sign, i) => {
    const image = composeImage(overlayOf({ ...page, selection: { now } }, { target, sign, isolated: null, colors }));
    const left = (i + 1) * (width + GAP);
    if (now.overlay) {
      context.drawImage(bitmap, left, 0, width, height);
      const pixels = context.getImageData(left, 0, width, height);
      makeGrey(pixels.data);
      context.putImageData(pixels, left, 0);
      context.globalAlpha = now.opacity;
    }
    context.drawImage(canvasOf(image), left, 0, width, height);
    context.globalAlpha = 1;
  });
  return canvas;
}

function canvasOf(image) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: image.width, height: image.height });
  canvas.getContext("2d").putImageData(new ImageData(image.rgba, image.width, image.height), 0, 0);
  return canvas;
}

/** The current frame as a PNG. @returns {Promise<Blob>} */
export async function frameImage(page, scale) {
  const canvas = await paint(page, page.selection.now.frame, scale);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** A range of frames as an animated PNG. @returns {Promise<Blob>} */
export async function animation(page, { first, last, scale, fps }, onProgress) {
  const rows = [];
  let size = null;
  for (let frame = first; frame <= last; frame += 1) {
    const canvas = await paint(page, frame, scale);
    size = { width: canvas.width, height: canvas.height };
    rows.push(
      canvas.getContext("2d", { willReadFrequently: true }).getImageData(0, 0, canvas.width, canvas.height).data,
    );
    onProgress((frame - first) / (last - first + 1));
  }
  return encodeApng(rows, { ...size, fps });
}

/** Every step of the first row's trajectory. @returns {Promise<Blob>} */
export async function timelineCsv({ manifest, selection, chunks }) {
  const { trajectory, layer, output } = firstTarget(manifest, selection.now);
  const { arrays } = await chunks.get(manifest.trajectories[trajectory].series);
  const outputs = manifest.outputs
    .map((choice) => [outputName(choice), outputSeries(arrays, choice)])
    .filter(([, values]) => values);
  const totals = await rowTotals({ manifest, chunks }, layer, output, trajectory);
  const count = manifest.actions.length;
  const header = ["trajectory", "frame", "new episode", "action", "reward", "advantage"];
  header.push(...outputs.map(([label]) => label));
  if (arrays.probabilities) header.push(...manifest.actions.map(({ label }) => `probability of ${label}`));
  if (totals) header.push(...totals.names);
  const lines = Array.from(arrays.actions.data, (action, t) => {
    const line = [trajectory + 1, t + 1, arrays.firsts.data[t], manifest.actions[action]?.label ?? action];
    line.push(arrays.rewards.data[t], arrays.advantages.data[t], ...outputs.map(([, values]) => values[t]));
    if (arrays.probabilities) line.push(...arrays.probabilities.data.subarray(t * count, (t + 1) * count));
    if (totals) line.push(...totalsAt(totals.numbers, t).flatMap(({ positive, negative }) => [positive, negative]));
    return line;
  });
  return new Blob([toCsv([header, ...lines])], { type: "text/csv" });
}

async function rowTotals({ manifest, chunks }, layerIndex, output, trajectory) {
  const layer = manifest.layers[layerIndex];
  const name = layer.totals?.[trajectory];
  const numbers = name && (await chunks.get(name)).arrays[`totals.${output}`];
  if (!numbers) return null;
  const names = Array.from({ length: numbers.shape[1] }, (_, k) =>
    k < layer.channels ? `channel ${k + 1}` : "residual",
  );
  return {
    numbers,
    names: names.flatMap((text) => [`${layer.name} ${text} positive`, `${layer.name} ${text} negative`]),
  };
}
