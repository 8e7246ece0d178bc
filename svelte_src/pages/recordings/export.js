// Files of what is shown.
import { derived, get } from "svelte/store";
import { csvFile, npzFile, tracksFile } from "../../kit/export/files.js";
import { framesFigure } from "../../kit/export/frames.js";
import { fileName } from "../../kit/shell/format.js";
import { frameAt } from "../../kit/time/align.js";
import { isMarked } from "../../kit/time/brush.js";
import { episodeName, knownSteps, methodNamed } from "./runs.js";
import { COLUMNS, textOf } from "./rows.js";
import { longestOf } from "./chosen.js";
import { availableTracks } from "./tracks.js";

const TEXTS = {
  figures: "The chosen episodes side by side with their maps and a caption, and their tracks.",
  clip: "The chosen episodes side by side",
  tables:
    "Every step of the chosen episodes, and whether it is marked; the table of episodes, filtered and sorted as on the page; series and maps as arrays for NumPy.",
};
const TRACKS = tracksFile();

/**
 * What the page saves.
 *
 * @param {import("../../types").Page} page
 * @returns a store of an Offer of kit/export/files.js, or of null where no episode is chosen
 */
export const filesOf = ({ selection, table, plays }) =>
  derived([selection, plays], ([{ chosen, step }]) => {
    if (!chosen.length) return null;
    const names = chosen.map((key) => (table.byKey.has(key) ? episodeName(table.byKey.get(key)) : key));
    const stem = fileName(names.join(" "));
    return {
      word: "step",
      texts: TEXTS,
      stem,
      steps: longestOf(table, chosen),
      frame: step,
      figureAt: stepFigure,
      figures: [TRACKS],
      tables: [
        { id: "csv", label: "Steps (CSV)", make: stepsCsv, name: `${stem}-steps.csv` },
        { id: "npz", label: "Arrays (npz)", make: arraysNpz, name: `${stem}-arrays.npz` },
        { id: "table", label: "Table of episodes (CSV)", make: tableCsv, name: "episodes.csv" },
      ],
    };
  });

/** @typedef {Required<{[K in keyof Play]: NonNullable<Play[K]>}>} Loaded @typedef {import("./plays.js").Play} Play */

/** The chosen episodes that are loaded. @returns {{row: import("./runs.js").Row, play: Loaded}[]} */
const chosenPlays = ({ selection, table, plays }) =>
  selection.now.chosen
    .map((key) => ({ row: table.byKey.get(key), play: get(plays).get(key) }))
    .filter(({ row, play }) => row && play?.series);

/** The frames of the chosen episodes at a step, with their maps, side by side. */
async function stepFigure(page, step, scale) {
  const { selection, table, manifest, episodeView } = page;
  const now = selection.now;
  const episodes = chosenPlays(page)
    .filter(({ play }) => play.trajectory.frames.length)
    .map(({ row, play }) => {
      const { trajectory } = row;
      const steps = knownSteps(row);
      const frame = frameAt(now.sync, step, steps, longestOf(table, now.chosen));
      const lines = [episodeName(row), `step ${frame + 1} of ${steps}`];
      const maps = { chunk: play.maps, method: methodNamed(row.of, now.method) };
      return { view: episodeView(row), trajectory, frame, lines, ...maps };
    });
  if (!episodes.length) throw new Error("The chosen episodes have no frames.");
  return framesFigure(manifest.title, episodes, now, scale);
}

/** Every step of the chosen episodes: what tracks show, probabilities, and whether the step is marked. */
function stepsCsv(page) {
  const chosen = chosenPlays(page);
  const tracks = availableTracks(chosen.map(({ play }) => play)).filter(({ key }) => !["film", "policy"].includes(key));
  const labels = [...new Set(chosen.flatMap(({ row }) => row.of.manifest.actions.map(({ label }) => label)))];
  const marks = get(page.brush);
  const lines = chosen.flatMap(({ row, play: { series } }) => {
    const { actions } = row.of.manifest;
    const columns = tracks.map(({ values }) => values?.(series));
    const places = labels.map((label) => actions.findIndex((action) => action.label === label));
    const probability = (t, k) => (k < 0 ? undefined : series.probabilities?.data[t * actions.length + k]);
    return Array.from({ length: knownSteps(row) }, (_, t) => {
      const action = series.actions?.data[t];
      return [
        ...[row.name, row.episode ?? row.trajectory, t + 1],
        Number(isMarked(marks, { checkpoint: row.of.id, episode: row.trajectory, step: t })),
        actions[action]?.label ?? action,
        ...columns.map((values) => values?.[t]),
        ...places.map((k) => probability(t, k)),
      ];
    });
  });
  const named = [
    ...tracks.map(({ label }) => label.toLowerCase()),
    ...labels.map((label) => `probability of ${label}`),
  ];
  return csvFile([["run", "episode", "step", "marked", "action", ...named], ...lines]);
}

/** The table of episodes as it is filtered and sorted. */
const tableCsv = ({ order }) =>
  csvFile([
    COLUMNS.map(({ title, label }) => (title ?? label).toLowerCase()),
    ...get(order).map((row) => COLUMNS.map((column) => textOf(column, row))),
  ]);

/** Series and maps of the chosen episodes as arrays. */
function arraysNpz(page) {
  const arrays = chosenPlays(page).flatMap(({ row, play }) => [
    ...Object.entries(play.series).map(([key, array]) => [`${row.key}/${key}`, array]),
    ...Object.entries(play.maps?.arrays ?? {}).map(([key, array]) => [`${row.key}/maps/${key}`, array]),
  ]);
  return npzFile(Object.fromEntries(arrays));
}
