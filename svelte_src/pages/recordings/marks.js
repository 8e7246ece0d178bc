// The steps of the chosen episodes that are marked.
import { derived } from "svelte/store";
import { latest } from "../../data/cache.js";
import { brushOf, EMPTY, withRange } from "../../kit/time/brush.js";
import { stepsFound } from "./find.js";
import { rangesOf } from "./chosen.js";

/**
 * The steps that the selection's search finds, as a store; null without a search.
 *
 * @param {import("../../types").SelectionStore} selection
 * @param {any} table
 * @param {import("svelte/store").Readable<any>} plays
 */
export function createFound(selection, table, plays) {
  const search = latest((find, chosen, loaded) => stepsFound(table, loaded, { find, chosen }));
  return derived([selection, plays], ([{ find, chosen }, loaded]) => search(find, chosen, loaded));
}

/**
 * The marked steps: those of the range, or what a search finds or the state map marks.
 *
 * @param {import("../../types").SelectionStore} selection
 * @param {any} table
 * @param {import("svelte/store").Readable<any>} plays
 * @param {ReturnType<typeof createFound>} found
 */
export function createBrush(selection, table, plays, found) {
  const place = ({ row, step }) => ({ checkpoint: row.of.id, episode: row.trajectory, step });
  const marked = latest((marks, steps, ranges) => {
    if (marks) return marks;
    return steps ? brushOf(steps.map(place)) : JSON.parse(ranges).reduce(withRange, EMPTY);
  });
  return {
    subscribe: derived([selection, plays, found], ([now, , steps]) =>
      marked(now.marks, steps, JSON.stringify(rangesOf(table, now))),
    ).subscribe,
    set: (marks) => selection.change({ marks: marks.size ? marks : null, range: null, find: null }, "marks"),
  };
}
