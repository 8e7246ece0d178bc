// Steps of the chosen episodes by condition.
import { findFrames } from "../../data/find.js";
import { valuesOf } from "../../kit/time/numbers.js";
import { entropyOver } from "./tracks.js";

/** What searches as text are of: the actions of the run that has most, and nothing else that conditions ask for. */
export function searchable({ runs }) {
  const lists = runs.map(({ manifest }) => manifest.actions);
  const actions = lists.reduce((most, list) => (list.length > most.length ? list : most), []);
  return { actions, layers: [], outputs: [], trajectories: [] };
}

/**
 * @param {{byKey: Map<string, import("./runs.js").Row>}} table
 * @param {Map<string, import("./plays.js").Play>} plays
 * @param {{find: import("../../data/find.js").Search | null, chosen: string[]}} selection
 * @returns {{row: import("./runs.js").Row, step: number}[] | null} steps at which all conditions hold, of the chosen
 *   episodes that are loaded; null where nothing is looked for
 */
export function stepsFound({ byKey }, plays, { find, chosen }) {
  if (!find) return null;
  return chosen.flatMap((key) => {
    const [row, series] = [byKey.get(key), plays.get(key)?.series];
    if (!row || !series) return [];
    const contexts = find.conditions.map((condition) => contextOf(condition, row, series));
    return findFrames(find.conditions, contexts).map(({ frame }) => ({ row, step: frame }));
  });
}

function contextOf({ kind, which }, { end }, series) {
  const steps = series.rewards.data;
  const places = new Map();
  if (end?.replace(" ", "-") === which) places.set(steps.length - 1, 1);
  const output = kind === "value" ? valuesOf(series) : entropyOver(series);
  return { series, firsts: steps, output, places };
}

/** The steps of the page's time at which it shows them, each once, as matches that `nextMatch` takes. */
export const asMatches = ({ episodeView }, found) =>
  [...new Set(found.map(({ row, step }) => episodeView(row).clock.toStep(step)))].map((frame) => ({
    trajectory: 0,
    frame,
  }));
