// Looks for frames in trajectories, loading the numbers that the conditions need.
import { writable } from "svelte/store";
import { framesEndedBy } from "../../data/episodes.js";
import { decompositionFor, findOutput } from "../../data/questions.js";
import { channelSeries, columnOf, outputSeries } from "../../data/series.js";
import { brushOf, EMPTY } from "../../kit/time/brush.js";
import { findFrames, kindOf, ordered } from "../../data/find.js";
import { saliencyTotals } from "./saliency.js";

/**
 * @param {Pick<import("../../types").Page, "manifest" | "chunks">} page
 * @param {import("../../data/find.js").Search} search
 * @returns {Promise<{matches: {trajectory: number, frame: number, measure: number | null}[], problem: string | null}>}
 */
export async function findMatches(page, { conditions, trajectory }) {
  const problems = [];
  const matches = [];
  for (const index of trajectory === null ? page.manifest.trajectories.keys() : [trajectory]) {
    try {
      const contexts = await Promise.all(conditions.map((condition) => contextOf(page, condition, index)));
      for (const match of findFrames(conditions, contexts)) matches.push({ trajectory: index, ...match });
    } catch ({ message }) {
      problems.push(message);
    }
  }
  return { matches: ordered(matches, conditions), problem: problems.join("; ") || null };
}

async function contextOf({ manifest, chunks }, condition, trajectory) {
  const { arrays } = await chunks.get(manifest.trajectories[trajectory].series);
  /** @type {Record<string, any>} what conditions read of it is in data/find.js */
  const context = { series: arrays, firsts: arrays.firsts.data };
  const kind = kindOf(condition);
  if (kind.output) {
    const output = findOutput(manifest, condition.output);
    context.output = output && outputSeries(arrays, output);
  }
  if (condition.kind === "channel") {
    context.channel = await channelOf({ manifest, chunks }, condition, trajectory, arrays);
  }
  if (condition.kind === "activation") {
    const name = manifest.layers[condition.layer].totals?.[trajectory];
    const { activation = null } = name ? (await chunks.get(name)).arrays : {};
    if (!activation)
      throw new Error("This page has no activations of features, because it was made by an earlier version.");
    context.channel = columnOf(activation, condition.channel);
  }
  if (condition.kind === "saliency") {
    const layer = manifest.layers[condition.layer];
    const output = layer.outputs[condition.channel].id;
    context.channel = await saliencyTotals({ manifest, chunks }, layer, output, trajectory);
  }
  if (condition.kind === "ended") context.places = framesEndedBy(manifest.trajectories[trajectory], condition.which);
  if (condition.kind === "bookmark") context.places = bookmarksOf(manifest, condition.which, trajectory);
  return context;
}

function bookmarksOf({ bookmarks }, which, trajectory) {
  if (!bookmarks) return null;
  const own = bookmarks[which].filter((mark) => mark.trajectory === trajectory);
  return new Map(own.map(({ frame, advantage }) => [frame, advantage]));
}

async function channelOf({ manifest, chunks }, { layer, output: id, channel }, trajectory, series) {
  const name = manifest.layers[layer].totals?.[trajectory];
  if (!name || channel >= manifest.layers[layer].channels) return null; // the totals' last is the residual
  const { arrays } = await chunks.get(name);
  const numbers = arrays[`totals.${id}`];
  if (numbers) return channelSeries(numbers, channel);
  const output = findOutput(manifest, id);
  return (output && decompositionFor(manifest, arrays, output, series)?.features[channel]) ?? null;
}

/** The frames that the selection's search finds, or that are shown, marked on the tracks: a store of {matches, problem, busy}. */
export function createMatches({ manifest, chunks, selection, clock, brush }) {
  const nothing = { matches: null, problem: null, busy: false };
  const store = writable(nothing);
  let wanted = null;
  selection.subscribe(async ({ find }) => {
    if (find === wanted) return;
    wanted = find;
    store.update((now) => (find ? { ...now, busy: true } : nothing));
    const found = find ? await findMatches({ manifest, chunks }, find) : nothing;
    if (find !== wanted) return;
    set(found);
  });

  function set(found) {
    store.set({ ...found, busy: false });
    const steps = found.matches?.map(({ trajectory, frame }) => ({ ...clock, episode: trajectory, step: frame }));
    brush.set(steps?.length ? brushOf(steps) : EMPTY);
  }

  return {
    subscribe: store.subscribe,
    /** Show these {trajectory, frame} instead of a search. */
    show(places) {
      selection.change({ find: null });
      set({ matches: places.map((place) => ({ ...place, measure: null })), problem: null });
    },
    clear() {
      selection.change({ find: null });
      set(nothing);
    },
  };
}
