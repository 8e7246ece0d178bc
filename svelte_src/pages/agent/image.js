// The attribution picture that a selection asks for, from the chunks that are there.
import { composeAttribution, frameOwnScale } from "../../kit/image/compose.js";
import { chosenChannels } from "./selection.js";

/** Name of the attribution chunk that holds a target's frame, or undefined. */
export function attributionChunk(manifest, { layer, output, trajectory, frame }) {
  return manifest.layers[layer].attribution?.[output]?.[trajectory]?.[Math.floor(frame / manifest.segment)];
}

/** One frame of an attribution chunk. @returns {{codes: Int8Array, depth: number, frameScale: number}} */
export function frameCodes({ arrays }, at) {
  const [, height, width, depth] = arrays.codes.shape;
  const size = height * width * depth;
  return { codes: arrays.codes.data.subarray(at * size, (at + 1) * size), depth, frameScale: arrays.scales.data[at] };
}

/** The codes of a target's frame, or null when its chunk is not loaded. */
export function targetCodes(manifest, chunks, target) {
  const name = attributionChunk(manifest, target);
  const chunk = name && chunks.peek(name);
  return chunk ? frameCodes(chunk, target.frame % manifest.segment) : null;
}

/** Which channels a picture shows: those of the selection, or only the one under the pointer. */
export function shownChannels(selection, layer, layerIndex, isolated) {
  if (isolated !== null && isolated.layer === layerIndex) {
    const alone = isolated.channel === layer.channels;
    return { chosen: alone ? [] : [isolated.channel], residual: alone };
  }
  return { chosen: chosenChannels(selection, layer, layerIndex), residual: selection.residual };
}

/** @returns {ReturnType<typeof composeAttribution> | null} null when the chunk is not loaded */
export function pictureOf({ manifest, chunks, selection, target, direction, isolated, colors }) {
  const layer = manifest.layers[target.layer];
  const frame = targetCodes(manifest, chunks, target);
  if (!frame) return null;
  const trajectoryScale = layer.scales?.[target.output]?.[target.trajectory] || 1;
  return composeAttribution({
    ...frame,
    ...shownChannels(selection, layer, target.layer, isolated),
    height: layer.height,
    width: layer.width,
    scale:
      selection.scale === "frame"
        ? frameOwnScale(frame.codes, frame.depth, layer.channels, frame.frameScale)
        : trajectoryScale,
    hues: colors.map(({ hue }) => hue),
    direction,
    smooth: selection.smooth,
    threshold: selection.threshold,
  });
}

/** All that a picture depends on. */
export function pictureKey({ manifest, chunks, selection, target, direction, isolated, colors }) {
  const chunk = chunks.peek(attributionChunk(manifest, target));
  const { channels, residual, scale, smooth, threshold } = selection;
  const choices = [channels, residual, scale, smooth, threshold, direction, isolated, colors];
  return [chunk, target.layer, target.output, target.trajectory, target.frame, ...choices];
}

/** The target that is most likely to be asked for after another one, or null. */
export function targetAfter(manifest, target, before) {
  const frame = target.frame + (target.frame < before ? -1 : 1);
  return frame >= 0 && frame < manifest.trajectories[target.trajectory].steps ? { ...target, frame } : null;
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The middle of the cell that a key leads to from a point (fractions of the picture), or null for other keys. */
export function movedPoint({ x, y }, { height, width }, key) {
  if (!(key in MOVES)) return null;
  const along = (at, step, count) => (Math.max(0, Math.min(count - 1, Math.floor(at * count) + step)) + 0.5) / count;
  const [dx, dy] = MOVES[key];
  return { x: along(x, dx, width), y: along(y, dy, height) };
}

// Loads what the reader is about to reach: the next segment while playing, a neighbour near a segment's edge.

const NEAR = 16;

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
