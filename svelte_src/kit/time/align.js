// The page's step, and the frame of each of several episodes that it stands for.

/**
 * The frame of an episode of `own` steps at a step of the page's time.
 *
 * @param {"step" | "progress"} sync the same step, or the same share of the episode
 * @param {number} longest steps of the page's time
 */
export function frameAt(sync, step, own, longest) {
  if (sync === "step" || longest <= 1) return Math.min(step, own - 1);
  return Math.round((step * (own - 1)) / (longest - 1));
}

/** The step at which an episode shows a frame. */
export function stepOf(sync, frame, own, longest) {
  if (sync === "step" || own <= 1) return frame;
  return Math.round((frame * (longest - 1)) / (own - 1));
}

/** Whether an episode has ended before a step. */
export const hasEnded = (sync, step, own) => sync === "step" && step >= own;
