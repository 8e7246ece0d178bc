// Looks for frames in trajectories, loading the numbers that the condition needs.
import { CONDITIONS, findFrames, ordered } from "../lib/find.js";
import { outputSeries } from "../lib/series.js";
import { channelSeries } from "../lib/totals.js";

/** @returns {Promise<{found: {trajectory: number, frame: number, measure: number}[], problems: string[]}>} */
export async function search({ manifest, chunks }, condition, trajectories) {
  const kind = CONDITIONS.find(({ id }) => id === condition.kind);
  const output = manifest.outputs.find(({ id }) => id === condition.output);
  const problems = [];
  const found = [];
  for (const trajectory of trajectories) {
    try {
      const { arrays } = await chunks.get(manifest.trajectories[trajectory].series);
      const context = { series: arrays, firsts: arrays.firsts.data };
      if (kind.output) context.output = outputSeries(arrays, output);
      if (kind.channel) context.channel = await channelOf({ manifest, chunks }, condition, trajectory);
      for (const hit of findFrames(condition, context)) found.push({ trajectory, ...hit });
    } catch (error) {
      problems.push(error.message);
    }
  }
  return { found: ordered(found, condition), problems };
}

async function channelOf({ manifest, chunks }, { layer, output, channel }, trajectory) {
  const name = manifest.layers[layer].totals?.[trajectory];
  if (!name) return null;
  const { arrays } = await chunks.get(name);
  const numbers = arrays[`totals.${output}`];
  return numbers ? channelSeries(numbers, channel) : null;
}
