// The episodes that are shown, whose longest decides how long the page's time runs.
import { frameAt } from "../../kit/time/align.js";
import { knownSteps } from "./runs.js";

/** Steps of the longest of the chosen episodes. */
export const longestOf = ({ byKey }, chosen) =>
  Math.max(1, ...chosen.map((key) => (byKey.has(key) ? knownSteps(byKey.get(key)) : 1)));

/** Tick an episode, or take its tick away; the last one stays. */
export function toggle({ selection }, key) {
  const { chosen } = selection.now;
  selection.change({ chosen: chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key] });
}

/** Go to a frame of an episode: it takes the place of the first one if it is not shown. @param {any} page */
export function goTo({ selection, table }, row, frame) {
  const { chosen, sync } = selection.now;
  const shown = chosen.includes(row.key) ? chosen : [row.key, ...chosen.slice(1)];
  const [own, longest] = [knownSteps(row), longestOf(table, shown)];
  const step = sync === "step" || own <= 1 ? frame : Math.round((frame * (longest - 1)) / (own - 1));
  selection.change({ chosen: shown, step });
}

/** The chosen range in each of the chosen episodes. @returns {{checkpoint: string, episode: number, first: number, last: number}[]} */
export function rangesOf(table, { range, chosen, sync }) {
  if (!range) return [];
  const longest = longestOf(table, chosen);
  return chosen.flatMap((key) => {
    const row = table.byKey.get(key);
    if (!row) return [];
    const steps = knownSteps(row);
    if (sync === "step" && range[0] >= steps) return [];
    const [first, last] = range.map((step) => frameAt(sync, step, steps, longest));
    return [{ checkpoint: row.of.id, episode: row.trajectory, first, last }];
  });
}
