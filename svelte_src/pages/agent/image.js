// The attribution that a selection asks for, from the chunks that are loaded.
import { memoized, recent } from "../../data/cache.js";
import { findOutput, termsOf, weightAt } from "../../data/questions.js";
import { cellUnder, cellMiddle } from "../../kit/image/cells.js";
import { parseHex } from "../../kit/image/colors.js";
import { frameOwnScale, frameValues, fullScale, partsOf } from "../../kit/image/values.js";
import { commonRange } from "../../kit/shell/embedding.js";
import { isSaliency, mapKey, ownMapScales, saliencyChunk, saliencyOptions, saliencyValues } from "./saliency.js";
import { shownChannels } from "./channels.js";
import { rowTarget } from "./rows.js";

const NEAR = 16;
/** Frames whose values are kept: those of a few rows, and the ones that are likely to come next. */
const KEPT = 24;

const segmentOf = (manifest, { frame }) => Math.floor(frame / manifest.segment);

const chunkName = (manifest, target, output) =>
  manifest.layers[target.layer].attribution?.[output]?.[target.trajectory]?.[segmentOf(manifest, target)];

const seriesName = (manifest, { trajectory }) => manifest.trajectories[trajectory].series;

/** The stored outputs that a target's output is the sum of; null while the numbers that weight them are not loaded. */
function targetTerms({ manifest, chunks }, target) {
  const output = findOutput(manifest, target.output);
  if (!output) return [];
  const series = chunks.peek(seriesName(manifest, target))?.arrays ?? null;
  return termsOf(manifest, manifest.layers[target.layer].attribution ?? {}, output, series);
}

/** Names of the chunks that a target's image is made of: none where the page does not have it. */
export function attributionChunks(page, target) {
  if (isSaliency(page.manifest.layers[target.layer])) return [saliencyChunk(page.manifest, target)].filter(Boolean);
  const terms = targetTerms(page, target);
  if (!terms) return [seriesName(page.manifest, target)];
  const names = terms.map(({ output }) => chunkName(page.manifest, target, output));
  return names.every(Boolean) ? names : [];
}

/** [{chunk, weight}], or null when they are not loaded. */
function targetParts(page, target) {
  const terms = targetTerms(page, target);
  if (!terms?.length) return null;
  const parts = terms.map(({ output, weights }) => ({
    chunk: page.chunks.peek(chunkName(page.manifest, target, output)),
    weights,
  }));
  return parts.every(({ chunk }) => chunk) ? parts : null;
}

const keyOfParts = (parts) => parts.flatMap(({ chunk, weights }) => [chunk, weights]);

const valuesOf = recent(
  ({ parts, first, at }) => {
    const weighted = parts.map(({ chunk, weights }) => ({ chunk, weight: weightAt(weights, first + at) }));
    const needed = weighted.filter(({ weight }) => weight !== 0);
    return frameValues(needed.length ? needed : weighted.slice(0, 1), at);
  },
  ({ parts, first, at }) => [first, at, ...keyOfParts(parts)],
  KEPT,
);

/** The values of a target's frame, or null when its chunks are not loaded. */
export function targetValues(page, target) {
  if (isSaliency(page.manifest.layers[target.layer])) return saliencyValues(page, target);
  const parts = targetParts(page, target);
  if (!parts) return null;
  const first = segmentOf(page.manifest, target) * page.manifest.segment;
  return valuesOf({ parts, first, at: target.frame - first });
}

// What has full opacity.

/** Every so many frames of a segment are looked at to measure a scale. */
const STRIDE = 4;

const measured = recent(
  ({ parts, first }) => {
    const count = parts[0].chunk.arrays.codes.shape[0];
    const frames = Array.from({ length: Math.ceil(count / STRIDE) }, (_, i) => i * STRIDE);
    return fullScale(frames.map((at) => valuesOf({ parts, first, at })));
  },
  ({ parts, first }) => [first, ...keyOfParts(parts)],
  KEPT,
);

/**
 * What has full opacity in a trajectory: 99.5 % of its positions are below. The page stores it for its outputs, and for
 * actions less the policy's mean; that of a difference is at most the sum. Null where it is not known.
 */
export function knownLimit(manifest, { layer: index, output: id, trajectory }) {
  const limits = manifest.layers[index].limits ?? {};
  const known = (key) => limits[key]?.[trajectory] ?? null;
  if (id in limits) return known(id);
  const { subject, against } = findOutput(manifest, id) ?? {};
  if (!subject) return null;
  const all = manifest.actions.map((_, action) => action);
  const sum = (list) => (list.includes(null) ? null : list.reduce((total, one) => total + one, 0));
  const largest = (list) => (list.includes(null) ? null : Math.max(...list));
  const centred = ({ actions }, join) => {
    const list = (actions ?? all).map((action) => known(`action-${action}-less-mean`));
    return actions ? join(list) : largest(list);
  };
  if (against === undefined) return largest(all.map((action) => known(`action-${action}`)));
  if (against === "mean") return centred(subject, sum);
  if (against === "log") return centred(subject, largest);
  return sum([centred(subject, sum), centred(against, sum)]);
}

/** What a target's values are divided by; null: the frame's own scale. */
function scaleOf(page, target, values) {
  const beside = page.partner?.now;
  if (!beside) return ownScale(page, target);
  const { layer, output } = target;
  const own = ownScale(page, target) ?? frameScale(page, target, values);
  return commonRange(beside, mapKey(page.manifest.layers[layer], unitOf(page.manifest, output)), [0, own])[1];
}

const frameScale = ({ manifest }, { layer }, values) => frameOwnScale(values, manifest.layers[layer].channels);

/** Scales of a target's images by name, without those of a page beside this one: empty while its chunks are not loaded. */
export function ownScales(page, target) {
  const { manifest } = page;
  const layer = manifest.layers[target.layer];
  if (!layer || target.past) return {};
  if (isSaliency(layer)) return ownMapScales(page, target);
  const values = targetValues(page, target);
  if (!values) return {};
  const scale = ownScale(page, target) ?? frameScale(page, target, values);
  return { [mapKey(layer, unitOf(manifest, target.output))]: [0, scale] };
}

function ownScale(page, target) {
  const { manifest, selection } = page;
  const { mixed, scale } = selection.now;
  if (scale === "frame") return null;
  const own = (one) =>
    mixed ? (manifest.layers[one.layer].scales?.[one.output]?.[one.trajectory] ?? null) : knownLimit(manifest, one);
  const alone = own(target) ?? measuredLimit(page, target);
  if (scale === "trajectory" || !selection.now.rows) return alone;
  if (scale === "all")
    return Math.max(alone, ...manifest.trajectories.map((_, t) => own({ ...target, trajectory: t }) ?? 0));
  const unit = unitOf(manifest, target.output);
  const others = selection.now.rows
    .map((row) => rowTarget(manifest, selection.now, row))
    .filter(({ layer, output }) => layer === target.layer && unitOf(manifest, output) === unit);
  return Math.max(alone, ...others.map((other) => own(other) ?? 0));
}

const unitOf = (manifest, id) => (findOutput(manifest, id)?.kind === "value" ? "value" : "logit");

function measuredLimit(page, target) {
  const parts = targetParts(page, target);
  return measured({ parts, first: segmentOf(page.manifest, target) * page.manifest.segment });
}

const GREY = { color: "#a0a0a0", hue: Array(3).fill(Math.sqrt(1 / 3)) };

/** The colors of features where the completeness error of a frame is too large: all the same grey. */
export const withoutColors = memoized((colors) => colors.map((one) => ({ ...one, ...GREY })));

const huesOf = memoized((colors) => colors.map(({ hue }) => hue));
const colorsOf = memoized((colors) => colors.map(({ color }) => parseHex(color).map((level) => level / 255)));

/** What `composeImage` makes a target's image of; null when its chunks are not loaded. */
export function overlayOf(page, { target, sign, isolated, colors }) {
  const { manifest, selection } = page;
  const layer = manifest.layers[target.layer];
  if (isSaliency(layer)) return saliencyOptions(page, { target, isolated, colors });
  const values = targetValues(page, target);
  if (!values) return null;
  const { smooth, threshold, mixed } = selection.now;
  return {
    grid: layer,
    sign,
    scale: scaleOf(page, target, values),
    values,
    hues: mixed ? huesOf(colors) : colorsOf(colors),
    ...shownChannels(selection.now, layer, target.layer, isolated),
    mixed,
    smooth,
    observation: manifest.observation,
    threshold,
  };
}

/** The features, at most so many, whose part of a sign is largest in an image, strongest first. */
export function strongestFeatures({ values, sign, chosen }, count) {
  const data = partsOf(values, sign);
  const sums = chosen.map((k) => {
    let total = 0;
    for (let at = k; at < data.length; at += values.depth) total += data[at];
    return { k, total };
  });
  const present = sums.filter(({ total }) => total > 0).sort((a, b) => b.total - a.total);
  return present.slice(0, count).map(({ k }) => k);
}

/** The target that is most likely to be asked for after another one, or null. */
export function targetAfter(manifest, target, before) {
  const frame = target.frame + (target.frame < before ? -1 : 1);
  return frame >= 0 && frame < manifest.trajectories[target.trajectory].steps ? { ...target, frame } : null;
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The middle of the cell that a key leads to from a point (shares of the frame), or null for other keys. */
export function movedPoint(point, grid, key, frame) {
  const cell = key in MOVES && cellUnder(grid, frame, point);
  if (!cell) return null;
  const [dx, dy] = MOVES[key];
  const [row, column] = [clamp(cell.row + dy, grid.height - 1), clamp(cell.column + dx, grid.width - 1)];
  return cellMiddle(grid, frame, { row, column });
}

const clamp = (index, last) => Math.max(0, Math.min(last, index));

/** Load what a target's image is made of, before anything asks for it: the page opens sooner. */
export function requestImage(page, target) {
  const { manifest, chunks, frames } = page;
  const names = manifest.layers.length && !target.past ? attributionChunks(page, target) : [];
  for (const name of names) chunks.get(name).catch(() => {}); // whoever shows it says what is wrong with it
  if (!target.past) frames.get(target.trajectory, target.frame).catch(() => {});
}

/** Load what the reader is about to reach: the next segment while playing, a neighbour near a segment's edge. */
export function prefetchAround(page, target, direction) {
  const { manifest, chunks, frames } = page;
  frames.warm(target.trajectory, target.frame, direction || 1);
  const steps = manifest.trajectories[target.trajectory].steps;
  const reach = direction ? manifest.segment : NEAR;
  for (const side of direction ? [direction] : [1, -1]) {
    const frame = target.frame + side * reach;
    if (frame >= 0 && frame < steps) {
      for (const name of attributionChunks(page, { ...target, frame })) chunks.prefetch(name);
      chunks.prefetch(manifest.trajectories[target.trajectory].frames[Math.floor(frame / manifest.segment)]);
    }
  }
}
