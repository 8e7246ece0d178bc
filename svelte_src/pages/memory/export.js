// Files of what is shown.
import { get } from "svelte/store";
import { figureSvg } from "../../kit/image/figure.js";
import { frameImage, framesFigure } from "../../kit/image/frames.js";
import { toCsv } from "../../kit/shell/format.js";
import { figureOfTracks } from "../../kit/time/figure.js";
import { loadTable } from "./tables.js";

/** A frame of the episode with a caption. */
export async function stepFigure({ frames, selection, manifest, describe }, frame, scale) {
  const { trajectory, palette } = selection.now;
  const image = await frameImage({ frames, manifest }, { trajectory, frame }, {}, {}, scale);
  return framesFigure(manifest.title, [{ ...image, lines: [describe({ trajectory, frame })] }], palette);
}

export const tracksSvg = (page) => figureSvg(figureOfTracks(page, [page.manifest.title]));

const load = (page, name) => loadTable(page, name, get(page.names).label);

/** A table as a file with a header. @param {string} name as in tables.js */
export const tableCsv = (name) => async (page) => {
  const { columns, rows } = await load(page, name);
  const lines = rows.map((row) => columns.map(({ key }) => row[key]));
  return new Blob([toCsv([columns.map(({ label }) => label), ...lines])], { type: "text/csv" });
};

/** A table as a list of objects; what is not a number is null. */
export const tableJson = (name) => async (page) => {
  const { rows } = await load(page, name);
  return new Blob([`${JSON.stringify(rows, null, 1)}\n`], { type: "application/json" });
};
