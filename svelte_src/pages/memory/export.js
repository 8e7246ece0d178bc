// Files of what is shown.
import { derived, get } from "svelte/store";
import { CHARTS, csvFile, tracksFile } from "../../kit/export/files.js";
import { framesFigure } from "../../kit/export/frames.js";
import { loadTable, tablesOf } from "./tables.js";

const TRACKS = tracksFile();

/** What the page saves. @param {import("../../types").Page} page @returns a store of an Offer of kit/export/files.js */
export const filesOf = ({ manifest, memory, panels, selection }) =>
  derived(selection, ({ trajectory, frame, tab }) => {
    const tables = tablesOf(memory, tab);
    const { title } = panels[tab].about;
    return {
      word: "step",
      texts: {
        figures: "The frame with a caption; the tracks, and the charts of the open tab.",
        clip: "The frames of the episode",
        tables: tables.length
          ? `Everything that the tab ${title} shows.`
          : `This page has no numbers for the tab ${title}.`,
      },
      tablesTitle: `Numbers of the tab ${title}`,
      stem: `episode-${trajectory + 1}`,
      steps: manifest.trajectories[trajectory].steps,
      frame,
      figureAt: stepFigure,
      figures: [TRACKS, { ...CHARTS, name: `${tab}-charts.svg` }],
      tables: tables.flatMap((name) => [
        { id: `${name}-csv`, label: `${name} (CSV)`, make: tableCsv(name), name: `${name}.csv` },
        { id: `${name}-json`, label: `${name} (JSON)`, make: tableJson(name), name: `${name}.json` },
      ]),
    };
  });

/** A frame of the episode with a caption. */
function stepFigure(page, frame, scale) {
  const { trajectory } = page.selection.now;
  const lines = [page.describe({ trajectory, frame })];
  return framesFigure(page.manifest.title, [{ view: page, trajectory, frame, lines }], page.selection.now, scale);
}

const load = (page, name) => loadTable(page, name, get(page.names).label);

/** A table as a file with a header. @param {string} name as in tables.js */
const tableCsv = (name) => async (page) => {
  const { columns, rows } = await load(page, name);
  return csvFile([columns.map(({ label }) => label), ...rows.map((row) => columns.map(({ key }) => row[key]))]);
};

/** A table as a list of objects; what is not a number is null. */
const tableJson = (name) => async (page) => {
  const { rows } = await load(page, name);
  return new Blob([`${JSON.stringify(rows, null, 1)}\n`], { type: "application/json" });
};
