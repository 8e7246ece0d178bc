// Loads what the reader is about to reach: the next segment while playing, a neighbour near a segment's edge.
import { attributionChunk } from "../lib/picture.js";

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
