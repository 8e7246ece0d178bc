// Files of what is shown. Everything drawn here comes from chunks, so that canvases can be read.
import { get } from "svelte/store";
import { outputSeries, totalsAt } from "../../data/series.js";
import { encodeApng } from "../../kit/image/apng.js";
import { composeImage, drawMarks, makeGrey } from "../../kit/image/compose.js";
import { frameName, outputName, toCsv } from "../../kit/shell/format.js";
import { accountOf, findOutput } from "../../data/questions.js";
import { attributionChunks, overlayOf } from "./image.js";
import { firstTarget } from "./selection.js";

const GAP = 4;
/** Pixels above the images for a title and the names of the images, and below them for the colors of the features. */
const [HEAD, FOOT] = [40, 22];
const FONT = 13;
/** Pixels for the name of an image. */
const LABEL = 160;
const SIGNS = { pos: "positive attribution", neg: "negative attribution", abs: "attribution, both signs" };
const VIDEO_TYPES = ["video/mp4;codecs=avc1.42E01E", "video/webm;codecs=vp9", "video/webm"];

/** The first row of a frame on a canvas: observation, then each sign; images are at least as wide as `narrowest`. */
async function paint(page, frame, scale, narrowest = 0) {
  const { manifest, selection, chunks, frames } = page;
  const now = { ...selection.now, frame };
  const target = firstTarget(manifest, now);
  if (target.past) throw new Error(`Trajectory ${target.trajectory + 1} has ended before frame ${frame + 1}.`);
  const bitmap = await frames.get(target.trajectory, frame);
  await chunks.get(manifest.trajectories[target.trajectory].series);
  const names = attributionChunks(page, target);
  await Promise.all(names.map((name) => chunks.get(name)));
  const colors = get(page.colors)[target.layer];
  const signs = names.length ? (now.combined ? ["abs"] : ["pos", "neg"]) : [];
  const factor = Math.max(scale, Math.ceil(narrowest / bitmap.width));
  const [width, height] = [bitmap.width * factor, bitmap.height * factor];
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
    for (const part of [image, drawMarks(image)]) context.drawImage(canvasOf(part), left, 0, width, height);
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

/** The current frame as an SVG whose labels are text. @returns {Promise<Blob>} */
export async function frameSvg(page, scale) {
  const { frame } = page.selection.now;
  const canvas = await paint(page, frame, scale, LABEL);
  const { texts, chips, width, height } = labels(page, frame, canvas);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="${FONT}">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<image y="${HEAD}" width="${canvas.width}" height="${canvas.height}" href="${canvas.toDataURL()}"/>`,
    ...chips.map(({ color, x, y }) => `<rect x="${x}" y="${y - 11}" width="12" height="12" fill="${color}"/>`),
    ...texts.map(({ text, x, y }) => `<text x="${x}" y="${y}">${escaped(text)}</text>`),
    "</svg>\n",
  ];
  return new Blob([lines.join("\n")], { type: "image/svg+xml" });
}

const escaped = (text) => text.replace(/[&<>]/g, (character) => `&#${character.codePointAt(0)};`);

/** What is written around the images of a frame: texts, and color chips, each with its place; and the size with them. */
function labels(page, frame, { width, height }) {
  const { manifest, selection, colors, names } = page;
  const now = { ...selection.now, frame };
  const target = firstTarget(manifest, now);
  const layer = manifest.layers[target.layer];
  const output = findOutput(manifest, target.output);
  const signs = attributionChunks(page, target).length ? (now.combined ? ["abs"] : ["pos", "neg"]) : [];
  const step = (width + GAP) / (signs.length + 1);
  const facts = [frameName({ trajectory: target.trajectory, frame }), layer?.name, output && outputName(output)];
  const texts = [{ text: facts.filter(Boolean).join(" \u00b7 "), x: 0, y: FONT + 2 }];
  ["observation", ...signs.map((sign) => SIGNS[sign])].forEach((text, i) =>
    texts.push({ text, x: Math.round(i * step), y: HEAD - 6 }),
  );
  const bottom = HEAD + height + FOOT - 6;
  const chips = [];
  (signs.length ? get(colors)[target.layer] : []).forEach(({ color }, k) => {
    const text = `${k + 1} ${get(names).name(target.layer, k)}`.trim();
    const x = chips.length ? Math.max(chips.at(-1).x + 36, texts.at(-1).x + textWidth(texts.at(-1).text) + 8) : 0;
    chips.push({ color, x, y: bottom });
    texts.push({ text, x: x + 16, y: bottom });
  });
  const right = Math.max(width, ...texts.map(({ text, x }) => x + textWidth(text)));
  return { texts, chips, width: Math.ceil(right), height: height + HEAD + FOOT };
}

/** With a reserve, as a viewer of figures may have another font. */
function textWidth(text) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `${FONT}px sans-serif`;
  return 1.1 * context.measureText(text).width;
}

/** A range of frames with labels as a video, recorded while it plays: MP4 where the browser can, else WebM. @returns {Promise<Blob>} */
export async function video(page, { first, last, scale, fps }, onProgress) {
  const type = VIDEO_TYPES.find((candidate) => globalThis.MediaRecorder?.isTypeSupported(candidate));
  if (!type)
    throw new Error("This browser cannot record videos. The animation (APNG) has the same images without labels.");
  const canvas = document.createElement("canvas");
  const parts = [];
  let recorder = null;
  let due = 0;
  for (let frame = first; frame <= last; frame += 1) {
    const painted = await paint(page, frame, scale, LABEL);
    if (!recorder) {
      const even = (length) => 2 * Math.ceil(length / 2); // as H.264 demands
      const { width, height } = labels(page, last, painted); // the number of the last frame is the longest
      Object.assign(canvas, { width: even(width), height: even(height) });
      drawLabelled(canvas, painted, labels(page, frame, painted));
      recorder = new globalThis.MediaRecorder(canvas.captureStream(), { mimeType: type, videoBitsPerSecond: 8e6 });
      recorder.ondataavailable = ({ data }) => parts.push(data);
      recorder.start();
    }
    await until(due);
    drawLabelled(canvas, painted, labels(page, frame, painted));
    onProgress((frame - first) / (last - first + 1));
    due = performance.now() + 1000 / fps;
  }
  await until(due);
  const stopped = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.stop();
  await stopped;
  return new Blob(parts, { type: type.split(";")[0] });
}

const until = (time) => new Promise((resolve) => setTimeout(resolve, time - performance.now()));

function drawLabelled(canvas, painted, { texts, chips }) {
  const context = canvas.getContext("2d");
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(painted, 0, HEAD);
  for (const { color, x, y } of chips) {
    context.fillStyle = color;
    context.fillRect(x, y - 11, 12, 12);
  }
  context.fillStyle = "#000000";
  context.font = `${FONT}px sans-serif`;
  for (const { text, x, y } of texts) context.fillText(text, x, y);
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

/** Columns of a row's account: of an output that the page stores also the positive and the negative part of each feature. */
async function rowParts({ manifest, chunks, names }, { layer: index, output: id, trajectory }, series) {
  const layer = manifest.layers[index];
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
