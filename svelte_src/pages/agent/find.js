// Frames by condition, or by several that hold together.
import { channelSeries, outputSeries } from "../../data/series.js";

/** The kinds of condition; `compare`: above or below a number; `output`, `channel`: which one is asked for. */
export const CONDITIONS = [
  { id: "action", label: "Action taken" },
  { id: "reward", label: "Reward", compare: true },
  { id: "advantage", label: "Advantage", compare: true },
  { id: "output", label: "Output", output: true, compare: true },
  { id: "jump", label: "Jump of an output", output: true, compare: true },
  { id: "channel", label: "Strength of a feature", channel: true, compare: true },
  { id: "first", label: "First frame of an episode" },
  { id: "bookmark", label: "Bookmark" },
];

export const kindOf = (condition) => CONDITIONS.find(({ id }) => id === condition.kind);

/** Whether a condition compares with a number that is not there: an empty field is not 0. */
export const lacksNumber = (condition) =>
  Boolean(kindOf(condition).compare) && (typeof condition.value !== "number" || !Number.isFinite(condition.value));

/** What a condition measures at every step, as a function of the step; null where the page does not have it. */
export function measureOf(condition, { series, firsts, output, channel, bookmarks }) {
  if (condition.kind === "action") return (t) => series.actions.data[t];
  if (condition.kind === "reward") return (t) => series.rewards.data[t];
  if (condition.kind === "advantage") return (t) => series.advantages.data[t];
  if (condition.kind === "first") return (t) => firsts[t];
  if (condition.kind === "output") return output && ((t) => output[t]);
  if (condition.kind === "jump") return output && ((t) => (t === 0 || firsts[t] ? 0 : output[t] - output[t - 1]));
  if (condition.kind === "channel") return channel && ((t) => channel[t]);
  if (condition.kind === "bookmark") return bookmarks && ((t) => bookmarks.get(t));
  return null;
}

/**
 * The steps at which all conditions hold, in order of time. Each has a context of its own; the measure is that of the
 * first condition that has one.
 *
 * @returns {{frame: number, measure: number | null}[]}
 */
export function findFrames(conditions, contexts) {
  const measures = conditions.map((condition, i) => measureOf(condition, contexts[i]));
  if (!measures.length || measures.some((measure) => !measure)) return [];
  const fits = conditions.map(fitting);
  const ranking = conditions.findIndex(ranks);
  const found = [];
  for (let t = 0; t < contexts[0].firsts.length; t += 1) {
    if (measures.every((measure, i) => fits[i](measure(t)))) {
      found.push({ frame: t, measure: ranking < 0 ? null : measures[ranking](t) });
    }
  }
  return found;
}

function fitting({ kind, compare, value }) {
  if (kind === "action") return (x) => x === value;
  if (kind === "first") return (x) => x !== 0;
  if (kind === "bookmark") return (x) => x !== undefined;
  return compare === "below" ? (x) => x < value : (x) => x > value;
}

const ranks = ({ kind }) => kind !== "action" && kind !== "first";

/** Strongest first where a condition has numbers, else in order of time. */
export function ordered(found, conditions) {
  const ranking = conditions.find(ranks);
  if (!ranking) return found;
  const ascending = ranking.kind === "bookmark" ? ranking.which === "low" : ranking.compare === "below";
  return [...found].sort((a, b) => (ascending ? a.measure - b.measure : b.measure - a.measure));
}

// Looks for frames in trajectories, loading the numbers that the conditions need.

/**
 * @param {object[]} conditions that hold together
 * @returns {Promise<{matches: {trajectory: number, frame: number, measure: number | null}[], problems: string[]}>}
 */
export async function search(page, conditions, trajectories) {
  const problems = [];
  const matches = [];
  for (const trajectory of trajectories) {
    try {
      const contexts = await Promise.all(conditions.map((condition) => contextOf(page, condition, trajectory)));
      for (const match of findFrames(conditions, contexts)) matches.push({ trajectory, ...match });
    } catch (error) {
      problems.push(error.message);
    }
  }
  return { matches: ordered(matches, conditions), problems };
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
