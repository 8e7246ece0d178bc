// The attribution that a selection asks for, from the chunks that are loaded.
import { memoized } from "../../data/cache.js";
import { frameCodes } from "../../kit/image/compose.js";
import { chosenChannels } from "./selection.js";

const NEAR = 16;

/** Name of the attribution chunk that holds a target's frame, or undefined. */
export function attributionChunk(manifest, { layer, output, trajectory, frame }) {
  return manifest.layers[layer].attribution?.[output]?.[trajectory]?.[Math.floor(frame / manifest.segment)];
}

/** The codes of a target's frame, or null when its chunk is not loaded. */
export function targetCodes(manifest, chunks, target) {
  const name = attributionChunk(manifest, target);
  const chunk = name && chunks.peek(name);
  return chunk ? frameCodes(chunk, target.frame % manifest.segment) : null;
}

/** Which channels an image shows: those of the selection, or only the one under the pointer, or the one that is soloed. */
export function shownChannels(selection, layer, layerIndex, isolated) {
  const alone = [isolated, selection.solo].find((place) => place?.layer === layerIndex);
  if (alone) {
    const rest = alone.channel === layer.channels;
    return { chosen: rest ? [] : [alone.channel], residual: rest };
  }
  return { chosen: chosenChannels(selection, layer, layerIndex), residual: selection.residual };
}

const huesOf = memoized((colors) => colors.map(({ hue }) => hue));

/** What `composeImage` makes a target's image of; null when its chunk is not loaded. */
export function overlayOf({ manifest, chunks, selection }, { target, sign, isolated, colors }) {
  const layer = manifest.layers[target.layer];
  const values = targetCodes(manifest, chunks, target);
  if (!values) return null;
  const { scale, smooth, threshold } = selection.now;
  return {
    grid: layer,
    sign,
    scale: scale === "frame" ? null : layer.scales?.[target.output]?.[target.trajectory] || 1,
    values,
    hues: huesOf(colors),
    ...shownChannels(selection.now, layer, target.layer, isolated),
    smooth,
    threshold,
  };
}

/** The target that is most likely to be asked for after another one, or null. */
export function targetAfter(manifest, target, before) {
  const frame = target.frame + (target.frame < before ? -1 : 1);
  return frame >= 0 && frame < manifest.trajectories[target.trajectory].steps ? { ...target, frame } : null;
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The middle of the cell that a key leads to from a point (fractions of the image), or null for other keys. */
export function movedPoint({ x, y }, { height, width }, key) {
  if (!(key in MOVES)) return null;
  const along = (at, step, count) => (Math.max(0, Math.min(count - 1, Math.floor(at * count) + step)) + 0.5) / count;
  const [dx, dy] = MOVES[key];
  return { x: along(x, dx, width), y: along(y, dy, height) };
}

/** Load what a target's image is made of, before anything asks for it: the page opens sooner. */
export function requestImage({ manifest, chunks, frames }, target) {
  const name = manifest.layers.length && !target.past && attributionChunk(manifest, target);
  if (name) chunks.get(name).catch(() => {}); // whoever shows it says what is wrong with it
  if (!target.past) frames.get(target.trajectory, target.frame).catch(() => {});
}

/** Load what the reader is about to reach: the next segment while playing, a neighbour near a segment's edge. */
export function prefetchAround({ manifest, chunks, frames }, target, direction) {
  frames.warm(target.trajectory, target.frame, direction || 1);
  const steps = manifest.trajectories[target.trajectory].steps;
  const reach = direction ? manifest.segment : NEAR;
  for (const side of direction ? [direction] : [1, -1]) {
    const frame = target.frame + side * reach;
    if (frame >= 0 && frame < steps) {
      chunks.prefetch(attributionChunk(manifest, { ...target, frame }));
      chunks.prefetch(manifest.trajectories[target.trajectory].frames[Math.floor(frame / manifest.segment)]);
    }
  }
}
