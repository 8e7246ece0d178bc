// Brushing an axis.
import { frameAt, stepOf } from "../../kit/time/align.js";
import { rangesIn } from "../../kit/time/brush.js";
import { brushedSteps } from "./axes.js";

/** Brush an axis; null: no longer. The step that is shown moves into the brush. */
export function brush(page, axis, range) {
  const { selection } = page;
  const others = Object.entries(selection.now.brushes).filter(([name]) => name !== axis);
  const brushes = Object.fromEntries(range ? [...others, [axis, range]] : others);
  selection.change({ brushes, ...(range && heldStep(page, brushes)) }, `brush ${axis}`);
}

/** The nearest step at which a chosen checkpoint's episode is within brushes. @param {import("../../types").Page} page */
function heldStep({ manifest, selection, plays }, brushes) {
  const now = { ...selection.now, brushes };
  const { chosen, episode, sync, step } = now;
  const marks = brushedSteps(manifest, now, plays.now);
  const [longest, distance] = [manifest.lengths[episode], (other) => Math.abs(other - step)];
  const held = chosen.flatMap((index) => {
    const { agent, manifest: own } = manifest.checkpoints[index];
    const steps = own.trajectories[episode]?.steps ?? 1;
    const frame = frameAt(sync, step, steps, longest);
    return rangesIn(marks, agent, episode).map(([first, last]) =>
      stepOf(sync, Math.max(first, Math.min(last, frame)), steps, longest),
    );
  });
  return held.length ? { step: held.reduce((best, one) => (distance(one) < distance(best) ? one : best)) } : {};
}
