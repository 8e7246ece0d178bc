// Looks for frames in trajectories, loading the numbers that the conditions need.
import { findFrames, kindOf, ordered } from "../lib/find.js";
import { outputSeries } from "../lib/series.js";
import { channelSeries } from "../lib/totals.js";

/**
 * @param {object[]} conditions that hold together
 * @returns {Promise<{found: {trajectory: number, frame: number, measure: number | null}[], problems: string[]}>}
 */
export async function search(page, conditions, trajectories) {
  const problems = [];
  const found = [];
  for (const trajectory of trajectories) {
    try {
      const contexts = await Promise.all(conditions.map((condition) => contextOf(page, condition, trajectory)));
      for (const hit of findFrames(conditions, contexts)) found.push({ trajectory, ...hit });
    } catch (error) {
      problems.push(error.message);
    }
  }
  return { found: ordered(found, conditions), problems };
}

async function contextOf({ manifest, chunks }, condition, trajectory) {
  const { arrays } = await chunks.get(manifest.trajectories[trajectory].series);
  const context = { series: arrays, firsts: arrays.firsts.data };
  const kind = kindOf(condition);
  if (kind.output) {
    const output = manifest.outputs.find(({ id }) => id === condition.output);
    context.output = output && outputSeries(arrays, output);
  }
  if (kind.channel) context.channel = await channelOf({ manifest, chunks }, condition, trajectory);
  if (condition.kind === "bookmark") context.bookmarks = bookmarksOf(manifest, condition.which, trajectory);
  return context;
}

function bookmarksOf({ bookmarks }, which, trajectory) {
  const own = bookmarks[which].filter((mark) => mark.trajectory === trajectory);
  return new Map(own.map(({ frame, advantage }) => [frame, advantage]));
}

async function channelOf({ manifest, chunks }, { layer, output, channel }, trajectory) {
  const name = manifest.layers[layer].totals?.[trajectory];
  if (!name || channel >= manifest.layers[layer].channels) return null; // the totals' last is the residual
  const { arrays } = await chunks.get(name);
  const numbers = arrays[`totals.${output}`];
  return numbers ? channelSeries(numbers, channel) : null;
}
