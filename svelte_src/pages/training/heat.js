// The heat map of regions' shares over an episode.
import { pixelsPerStep, stepToX } from "../../kit/time/draw.js";
import { parseHex } from "../../kit/image/colors.js";

/** Pixels of a region's row. */
export const HEAT_LANE = 14;

/** A row for each region: the mark's color over the surface's, as much as the region's share at each map. */
export function drawHeat(context, view, tokens, shares, steps) {
  const [ground, full] = [tokens.surface, tokens.mark].map(parseHex);
  const end = stepToX(view, view.steps - 0.5);
  const lane = view.height / shares.length;
  for (let m = 0; m < steps.length; m += 1) {
    const left = stepToX(view, steps[m] - 0.5);
    const right = m + 1 < steps.length ? stepToX(view, steps[m + 1] - 0.5) : end;
    if (right < 0 || left > view.width) continue;
    shares.forEach((share, k) => {
      const mixed = ground.map((level, i) => Math.round(level + share[m] * (full[i] - level)));
      context.fillStyle = `rgb(${mixed.join(", ")})`;
      context.fillRect(left, k * lane, Math.max(right - left, pixelsPerStep(view)) + 0.5, lane);
    });
  }
}
