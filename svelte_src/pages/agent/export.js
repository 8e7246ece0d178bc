// Files of what is shown. Everything drawn here comes from chunks, so that canvases can be read.
import { get } from "svelte/store";
import { accountOf, findOutput } from "../../data/questions.js";
import { outputSeries, totalsAt } from "../../data/series.js";
import { encodeApng } from "../../kit/image/apng.js";
import { newCanvas } from "../../kit/image/canvas.js";
import { createSvg } from "../../kit/image/svg.js";
import { outputName, toCsv } from "../../kit/shell/format.js";
import { barsFigure, tracksFigure } from "./charts.js";
import { frameFigure } from "./figure.js";
import { isSaliency, saliencyTotals } from "./saliency.js";
import { firstTarget } from "./selection.js";

const VIDEO_TYPES = ["video/mp4;codecs=avc1.42E01E", "video/webm;codecs=vp9", "video/webm"];

function canvasOf(figure) {
  const canvas = newCanvas(figure.width, figure.height);
  figure.draw(canvas.getContext("2d", { willReadFrequently: true }));
  return canvas;
}

function svgOf(figure) {
  const svg = createSvg(figure.width, figure.height);
  figure.draw(svg);
  return new Blob([String(svg)], { type: "image/svg+xml" });
}

/** The current frame as a PNG. @returns {Promise<Blob>} */
export async function frameImage(page, scale) {
  const canvas = canvasOf(await frameFigure(page, page.selection.now.frame, scale));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** The current frame as an SVG whose labels are text. @returns {Promise<Blob>} */
export const frameSvg = async (page, scale) => svgOf(await frameFigure(page, page.selection.now.frame, scale));

/** The bars of the current frame. @returns {Promise<Blob>} */
export const barsSvg = async (page) => svgOf(await barsFigure(page));

/** The tracks as the page shows them. @returns {Promise<Blob>} */
export const tracksSvg = async (page) => svgOf(tracksFigure(page));

/** The figures of a range of frames, one after another, on a canvas that holds the first and the last one. */
async function* figures(page, { first, last, scale }) {
  const ends = [await frameFigure(page, first, scale), await frameFigure(page, last, scale)];
  const even = (length) => 2 * Math.ceil(length / 2); // as H.264 demands
  const [width, height] = ["width", "height"].map((side) => even(Math.max(...ends.map((figure) => figure[side]))));
  const canvas = newCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  for (let frame = first; frame <= last; frame += 1) {
    const figure = await frameFigure(page, frame, scale);
    yield () => {
      context.fillStyle = "#ffffff";
      context.fillRect(0, 0, width, height);
      figure.draw(context);
      return canvas;
    };
  }
}

/** A range of frames as a video, recorded while it plays: MP4 where the browser can, else WebM. @returns {Promise<Blob>} */
export async function video(page, range, onProgress) {
  const type = VIDEO_TYPES.find((candidate) => globalThis.MediaRecorder?.isTypeSupported(candidate));
  if (!type)
    throw new Error("This browser cannot record videos. Save the animation (APNG) instead: it has the same images.");
  const parts = [];
  let recorder = null;
  let count = 0;
  for await (const draw of figures(page, range)) {
    const canvas = draw();
    if (recorder) {
      recorder.resume();
    } else {
      recorder = new globalThis.MediaRecorder(canvas.captureStream(), { mimeType: type, videoBitsPerSecond: 8e6 });
      recorder.ondataavailable = ({ data }) => parts.push(data);
      recorder.start();
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 / range.fps));
    recorder.pause(); // while the next figure is made
    onProgress((count += 1) / (range.last - range.first + 1));
  }
  const stopped = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.stop();
  await stopped;
  return new Blob(parts, { type: type.split(";")[0] });
}

/** A range of frames as an animated PNG. @returns {Promise<Blob>} */
export async function animation(page, range, onProgress) {
  const frames = [];
  let size = null;
  for await (const draw of figures(page, range)) {
    const canvas = draw();
    size = { width: canvas.width, height: canvas.height };
    frames.push(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data);
    onProgress(frames.length / (range.last - range.first + 1));
  }
  return encodeApng(frames, { ...size, fps: range.fps });
}

/** Every step of the first row's trajectory. @returns {Promise<Blob>} */
export async function timelineCsv({ manifest, selection, chunks, names }) {
  const { trajectory, layer, output } = firstTarget(manifest, selection.now);
  const { arrays } = await chunks.get(manifest.trajectories[trajectory].series);
  const asked = manifest.outputs.some(({ id }) => id === output) ? [] : [findOutput(manifest, output)];
  const outputs = [...manifest.outputs, ...asked]
    .map((choice) => [outputName(choice), outputSeries(arrays, choice)])
    .filter(([, values]) => values);
  const parts = await rowParts({ manifest, chunks, names }, { layer, output, trajectory }, arrays);
  const count = manifest.actions.length;
  const header = ["trajectory", "frame", "new episode", "action", "reward", "advantage"];
  header.push(...outputs.map(([label]) => label));
  if (arrays.probabilities) header.push(...manifest.actions.map(({ label }) => `probability of ${label}`));
  header.push(...parts.map(({ name }) => name));
  const lines = Array.from(arrays.actions.data, (action, t) => {
    const line = [trajectory + 1, t + 1, arrays.firsts.data[t], manifest.actions[action]?.label ?? action];
    line.push(arrays.rewards.data[t], arrays.advantages.data[t], ...outputs.map(([, values]) => values[t]));
    if (arrays.probabilities) line.push(...arrays.probabilities.data.subarray(t * count, (t + 1) * count));
    return [...line, ...parts.map(({ valueAt }) => valueAt(t))];
  });
  return new Blob([toCsv([header, ...lines])], { type: "text/csv" });
}

/** Columns of a row: sums of saliency maps, or the account; of an output that the page stores also the positive and the negative part of each feature. */
async function rowParts({ manifest, chunks, names }, { layer: index, output: id, trajectory }, series) {
  const layer = manifest.layers[index];
  if (isSaliency(layer)) {
    const columns = layer.outputs.map(async ({ id, label }) => {
      const totals = await saliencyTotals({ manifest, chunks }, layer, id, trajectory);
      return { name: `saliency by ${layer.name}, ${label}`, valueAt: (t) => totals[t] };
    });
    return Promise.all(columns);
  }
  const name = layer.totals?.[trajectory];
  if (!name) return [];
  const { arrays } = await chunks.get(name);
  const column = (text, valueAt) => ({ name: `${layer.name} ${text}`, valueAt });
  const word = (k) => get(names).label(index, k);
  const numbers = arrays[`totals.${id}`];
  const signs = Array.from({ length: numbers?.shape[1] ?? 0 }, (_, k) =>
    ["positive", "negative"].map((sign) => column(`${word(k)} ${sign}`, (t) => totalsAt(numbers, t)[k][sign])),
  );
  const account = accountOf(manifest, arrays, findOutput(manifest, id), series);
  const whole = account ? ["baseline", "memory", "gap"].map((part) => column(part, (t) => account[part][t])) : [];
  const net = account && !numbers ? [...account.features, account.rest] : [];
  return [...whole, ...signs.flat(), ...net.map((values, k) => column(word(k), (t) => values[t]))];
}
