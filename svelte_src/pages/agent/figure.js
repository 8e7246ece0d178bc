// A figure of a frame: the images of every row, with a caption and the colors of the features.
import { get } from "svelte/store";
import { hasFeatures } from "../../data/manifest.js";
import { findOutput } from "../../data/questions.js";
import { textOn } from "../../kit/image/colors.js";
import { composeImage } from "../../kit/image/compose.js";
import { LINE, GAP, pixelCanvas, scaled, stacked, textBlock, textWidth, writeText } from "../../kit/export/figure.js";
import { drawMarks } from "../../kit/image/marks.js";
import { greyImage } from "../../kit/image/grey.js";
import { formatNumber, frameName, layerName, outputName } from "../../kit/shell/format.js";
import { INCOMPLETE, isIncomplete, targetDecomposition } from "./decomposition.js";
import { hatch } from "./stack.js";
import { attributionChunks, overlayOf, withoutColors } from "./image.js";
import { featuresAlone } from "./multiples.js";
import { isSaliency } from "./saliency.js";
import { shownTargets } from "./rows.js";

export const HATCHED = `hatched: ${INCOMPLETE}`;
/** Pixels for the name of an image. */
const NAME_WIDTH = 160;
const CHIP = 12;
const SIGNS = {
  pos: "positive attribution",
  neg: "negative attribution",
  abs: "attribution, both signs",
  saliency: "saliency",
};
const SCALES = {
  trajectory: "one scale for the trajectory",
  frame: "a scale for each frame",
  all: "one scale for all trajectories",
};

/** A frame with all rows. @returns {Promise<import("../../kit/export/figure.js").Figure>} */
export async function frameFigure(page, frame, scale) {
  const { manifest } = page;
  const now = { ...page.selection.now, frame };
  const targets = shownTargets(manifest, now);
  const inTime = targets.filter(({ past }) => !past);
  if (!inTime.length) throw new Error(`Trajectory ${targets[0].trajectory + 1} has ended before frame ${frame + 1}.`);
  const rows = [];
  for (const target of inTime) {
    const observed = !rows.some((row) => row.target.trajectory === target.trajectory);
    rows.push(await rowOf({ ...page, selection: { now } }, target, scale, observed));
  }
  const images = Math.max(...rows.map(({ width }) => width));
  const width = Math.max(images, ...rows.map(({ caption }) => textWidth(caption)), textWidth(captionOf(page)));
  const explained = rows.filter(({ images: list }) => list.some(({ sign }) => sign));
  const legends = [...new Set(explained.map(({ target }) => target.layer))];
  const blocks = [
    textBlock([captionOf(page)], true),
    ...rows.map(rowBlock),
    ...legends.map((layer) => legendBlock(page, layer, legends.length > 1, width)),
  ];
  return stacked(blocks, width);
}

/** What was explained: the page's title and its checkpoint. */
export function captionOf({ manifest }) {
  const items = manifest.provenance?.find(({ group }) => group === "Checkpoint")?.items ?? [];
  const { file, sha256 } = Object.fromEntries(items);
  const hash = sha256 ? ` (SHA-256 ${sha256.slice(0, 8)})` : "";
  return [manifest.title, file && `checkpoint ${file}${hash}`].filter(Boolean).join(" \u00b7 ");
}

/** What a row shows, in words; `limits`: what has full color, of saliency for each output. */
export function rowCaption({ manifest, selection }, target, limits = []) {
  const layer = manifest.layers[target.layer];
  const output = isSaliency(layer) ? null : findOutput(manifest, target.output);
  const facts = [frameName(target), layer && layerName(layer), output && outputName(output)];
  if (limits.length) {
    const full = limits.map(({ scale, output: k }) =>
      [layer.names?.[k], formatNumber(scale)].filter(Boolean).join(" "),
    );
    facts.push(`full color ${full.join(", ")} (${SCALES[selection.now.scale] ?? "one scale for the rows"})`);
  }
  return facts.filter(Boolean).join(" \u00b7 ");
}

/** One row: its images, each with a name and its place; without the observation, its place stays empty. */
async function rowOf(page, target, scale, observed) {
  const { manifest, chunks, frames, selection } = page;
  const { now } = selection;
  const bitmap = await frames.get(target.trajectory, target.frame);
  const series = (await chunks.get(manifest.trajectories[target.trajectory].series)).arrays;
  const incomplete = await lacksPoints(page, target, series);
  const names = manifest.layers.length ? attributionChunks(page, target) : [];
  await Promise.all(names.map((name) => chunks.get(name)));
  const factor = Math.max(scale, Math.ceil(NAME_WIDTH / bitmap.width));
  const size = { width: bitmap.width * factor, height: bitmap.height * factor };
  const images = observed ? [{ name: "observation", left: 0, canvas: scaled(size, [[bitmap, 1]]), chips: [] }] : [];
  let right = size.width;
  const maps = isSaliency(manifest.layers[target.layer]);
  const signs = !names.length ? [] : maps ? ["saliency"] : now.combined ? ["abs"] : ["pos", "neg"];
  const region = maps ? undefined : manifest.observation.region;
  const opacity = now.overlay ? now.opacity : 1;
  let limits = [];
  for (const sign of signs) {
    const known = get(page.colors)[target.layer];
    const colors = incomplete ? withoutColors(known) : known;
    const options = /** @type {any} its chunks are loaded; of attribution or of saliency */ (
      overlayOf(page, { target, sign, isolated: null, colors })
    );
    const image = composeImage(options);
    const left = right + GAP;
    right = left + size.width;
    limits = options.maps ?? [{ scale: options.scale }];
    const below = maps && !now.grey ? bitmap : greyImage(bitmap, !maps && !now.mixed);
    const layers = now.overlay ? [[below, 1]] : [];
    layers.push([pixelCanvas(image), opacity, region]);
    if (!maps) layers.push([pixelCanvas(drawMarks(image)), opacity, region]);
    const canvas = scaled(size, layers);
    if (incomplete) hatchOver(canvas);
    images.push({ name: SIGNS[sign], sign, left, canvas, chips: [] });
    if (maps || now.mixed) continue;
    const scene = { observation: now.overlay ? bitmap : null, opacity, region };
    images.push({ ...featuresAlone(options, size, scene, colors), left: right + GAP });
    right += GAP + images[images.length - 1].canvas.width;
  }
  const caption = [rowCaption(page, target, limits), incomplete && HATCHED].filter(Boolean).join(" \u00b7 ");
  return { target, images, width: right, height: size.height, caption };
}

/** Whether the completeness error of a target is too large. */
async function lacksPoints({ manifest, chunks }, target, series) {
  const name = manifest.layers[target.layer]?.totals?.[target.trajectory];
  const decomposition = name && targetDecomposition(manifest, (await chunks.get(name)).arrays, target, series);
  return Boolean(decomposition) && isIncomplete(manifest, target, decomposition);
}

function hatchOver(canvas) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.globalAlpha = 0.5;
  context.fillStyle = hatch(context, { ink: "#000000" }, true);
  context.fillRect(0, 0, canvas.width, canvas.height);
}

function rowBlock({ caption, images, height }) {
  return {
    height: 2 * LINE + height,
    draw(context, top) {
      writeText(context, caption, 0, top + LINE - 5);
      for (const { name, left, canvas, chips } of images) {
        if (name) writeText(context, name, left, top + 2 * LINE - 5);
        context.drawImage(canvas, left, top + 2 * LINE);
        for (const { y, text, color } of chips) {
          context.fillStyle = color;
          context.fillRect(left, top + 2 * LINE + y, textWidth(text) + 4, CHIP + 3);
          writeText(context, text, left + 2, top + 2 * LINE + y + CHIP, true, textOn(color));
        }
      }
    },
  };
}

/** The colors of a layer's features, with numbers and names. */
function legendBlock({ manifest, colors, names }, layerIndex, named, width) {
  const layer = manifest.layers[layerIndex];
  const residual = hasFeatures(layer) ? [{ color: null, text: "residual" }] : [];
  const features = get(colors)[layerIndex].flatMap(({ color, negative }, k) => {
    if (!isSaliency(layer)) return { color, text: `${k + 1} ${get(names).name(layerIndex, k)}`.trim() };
    const text = layer.names[k];
    return layer.signed
      ? [
          { color, text: `raises ${text}` },
          { color: negative, text: `lowers ${text}` },
        ]
      : { color, text };
  });
  const entries = [...(named ? [{ text: `${layerName(layer)}:` }] : []), ...features, ...residual];
  let [x, line] = [0, 0];
  const placed = entries.map(({ color, text }) => {
    const used = (color === undefined ? 0 : CHIP + 4) + textWidth(text) + 12;
    if (x > 0 && x + used > width) [x, line] = [0, line + 1];
    const entry = { color, text, x, line };
    x += used;
    return entry;
  });
  return {
    height: (line + 1) * LINE,
    draw(context, top) {
      for (const { color, text, x: left, line: at } of placed) {
        const baseline = top + (at + 1) * LINE - 5;
        if (color !== undefined) {
          context.fillStyle = color ?? hatch(context, { ink: "#000000" });
          context.fillRect(left, baseline - CHIP + 1, CHIP, CHIP);
        }
        writeText(context, text, left + (color === undefined ? 0 : CHIP + 4), baseline);
      }
    },
  };
}
