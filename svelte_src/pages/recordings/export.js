// Files of what is shown.
import { get } from "svelte/store";
import { encodeNpz } from "../../data/npz.js";
import { figureSvg } from "../../kit/image/figure.js";
import { frameImage, framesFigure } from "../../kit/image/frames.js";
import { toCsv } from "../../kit/shell/format.js";
import { frameAt } from "../../kit/time/align.js";
import { isMarked } from "../../kit/time/brush.js";
import { figureOfTracks } from "../../kit/time/figure.js";
import { episodeName, knownSteps, methodNamed } from "./runs.js";
import { COLUMNS, textOf } from "./rows.js";
import { longestOf } from "./selection.js";
import { availableTracks } from "./tracks.js";

/** The chosen episodes that are loaded. @returns {{row: import("./runs.js").Row, play: import("./plays.js").Play}[]} */
const chosenPlays = ({ selection, table, plays }) =>
  selection.now.chosen
    .map((key) => ({ row: table.byKey.get(key), play: get(plays).get(key) }))
    .filter(({ row, play }) => row && play?.series);

/** The frames of the chosen episodes at a step, with their maps, side by side. */
export async function stepFigure(page, step, scale) {
  const { selection, table, manifest, episodeView } = page;
  const now = selection.now;
  const images = [];
  for (const { row, play } of chosenPlays(page)) {
    if (!play.trajectory.frames.length) continue;
    const steps = knownSteps(row);
    const frame = frameAt(now.sync, step, steps, longestOf(table, now.chosen));
    const maps = { chunk: play.maps, method: methodNamed(row.of, now.method) };
    const image = await frameImage(episodeView(row), { trajectory: row.trajectory, frame }, maps, now, scale);
    images.push({ ...image, lines: [episodeName(row), `step ${frame + 1} of ${steps}`] });
  }
  if (!images.length) throw new Error("The chosen episodes have no frames.");
  return framesFigure(manifest.title, images, now.palette);
}

export const tracksSvg = (page) => figureSvg(figureOfTracks(page, [page.manifest.title]));

/** Every step of the chosen episodes: what tracks show, probabilities, and whether the step is marked. */
export function stepsCsv(page) {
  const chosen = chosenPlays(page);
  const tracks = availableTracks(chosen.map(({ play }) => play)).filter(({ key }) => !["film", "policy"].includes(key));
  const labels = [...new Set(chosen.flatMap(({ row }) => row.of.manifest.actions.map(({ label }) => label)))];
  const marks = get(page.brush);
  const lines = chosen.flatMap(({ row, play: { series } }) => {
    const { actions } = row.of.manifest;
    const columns = tracks.map(({ values }) => values(series));
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
export const tableCsv = ({ order }) =>
  csvFile([
    COLUMNS.map(({ title, label }) => (title ?? label).toLowerCase()),
    ...get(order).map((row) => COLUMNS.map((column) => textOf(column, row))),
  ]);

const csvFile = (rows) => new Blob([toCsv(rows)], { type: "text/csv" });

/** Series and maps of the chosen episodes as arrays. */
export function arraysNpz(page) {
  const arrays = chosenPlays(page).flatMap(({ row, play }) => [
    ...Object.entries(play.series).map(([key, array]) => [`${row.key}/${key}`, array]),
    ...Object.entries(play.maps?.arrays ?? {}).map(([key, array]) => [`${row.key}/maps/${key}`, array]),
  ]);
  return new Blob([encodeNpz(Object.fromEntries(arrays))], { type: "application/octet-stream" });
}
