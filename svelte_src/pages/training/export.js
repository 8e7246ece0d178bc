// Files of what is shown.
import { derived, get } from "svelte/store";
import { mapOutputs } from "../../data/saliency.js";
import { CHARTS, csvFile, npzFile, tracksFile } from "../../kit/export/files.js";
import { pngOf } from "../../kit/export/figure.js";
import { framesFigure } from "../../kit/export/frames.js";
import { frameAt } from "../../kit/time/align.js";
import { axesOf, maskOf, playColumns } from "./axes.js";
import { letterOf, methodNamed } from "./checkpoints.js";
import { regionName, sharesOf } from "./maps.js";

const TEXTS = {
  figures: "The chosen checkpoints side by side with their maps and a caption; tracks, charts and lines.",
  clip: "The chosen checkpoints side by side",
  tables:
    "Every step of the chosen checkpoints, and whether it is inside the brushes; or series, maps and shares as arrays for NumPy.",
};
const TRACKS = tracksFile();

/** What the page saves. @param {import("../../types").Page} page @returns a store of an Offer of kit/export/files.js */
export const filesOf = ({ manifest, selection }) =>
  derived(selection, ({ episode, step }) => {
    const stem = `episode-${episode + 1}`;
    return {
      word: "step",
      texts: TEXTS,
      stem,
      steps: manifest.lengths[episode],
      frame: step,
      figureAt: stepFigure,
      figures: [
        TRACKS,
        CHARTS,
        { id: "lines", label: "Steps (PNG)", make: linesPng, name: `${stem}-step-${step + 1}-steps.png` },
      ],
      tables: [
        { id: "csv", label: "Steps (CSV)", make: stepsCsv, name: `${stem}-steps.csv` },
        { id: "npz", label: "Arrays (npz)", make: arraysNpz, name: `${stem}-arrays.npz` },
      ],
    };
  });

/** The frames of the chosen checkpoints at a step, with their maps, side by side. */
async function stepFigure({ selection, views, manifest, plays }, step, scale) {
  const now = selection.now;
  const episodes = now.chosen.flatMap((index, place) => {
    const view = views[index];
    const { steps } = view.manifest.trajectories[now.episode] ?? {};
    if (!steps) return [];
    const frame = frameAt(now.sync, step, steps, manifest.lengths[now.episode]);
    const lines = [`${letterOf(place)} ${view.checkpoint.name}`, `step ${frame + 1} of ${steps}`];
    const maps = { chunk: get(plays)[index].maps, method: methodNamed(view.checkpoint, now.method) };
    return { view, trajectory: now.episode, frame, lines, ...maps };
  });
  if (!episodes.length) throw new Error("No chosen checkpoint has this episode.");
  const caption = [manifest.title, `episode ${now.episode + 1}`].filter(Boolean).join(" \u00b7 ");
  return framesFigure(caption, episodes, now, scale);
}

/** The lines of the panel Steps, as they are drawn. @returns {Promise<Blob>} */
const linesPng = () => pngOf(/** @type {HTMLCanvasElement} */ (document.querySelector("[data-testid=steps-canvas]")));

/** Every step of the chosen checkpoints with all numbers of the panel Steps, and whether the brushes hold it. */
function stepsCsv({ manifest, selection, plays }) {
  const now = selection.now;
  const axes = axesOf(now).filter(({ key }) => key !== "step");
  const rows = now.chosen.flatMap((index) => {
    const columns = playColumns(manifest, now, get(plays), index);
    if (!columns) return [];
    const mask = maskOf(columns, now.brushes);
    const { name } = manifest.checkpoints[index];
    const { actions } = manifest.checkpoints[index].manifest;
    const taken = get(plays)[index].series.actions.data;
    return Array.from(taken, (action, t) => [
      name,
      t + 1,
      mask[t],
      actions[action]?.label ?? action,
      ...axes.map(({ key }) => (Number.isNaN(columns[key]?.[t]) ? "" : columns[key]?.[t])),
    ]);
  });
  const header = ["checkpoint", "step", "brushed", "action", ...axes.map(({ label }) => label)];
  return csvFile([header, ...rows]);
}

/** Series, maps and shares of the chosen checkpoints as arrays. */
function arraysNpz({ manifest, selection, plays }) {
  const { chosen, method: name, regions } = selection.now;
  const arrays = {};
  for (const [place, index] of chosen.entries()) {
    const { series, maps } = get(plays)[index];
    const method = methodNamed(manifest.checkpoints[index], name);
    const add = (all, prefix) =>
      Object.entries(all).forEach(([key, array]) => (arrays[`${letterOf(place)}/${prefix}${key}`] = array));
    if (series) add(series, "");
    if (!maps || !method) continue;
    add(maps.arrays, "maps/");
    for (const output of mapOutputs(maps)) {
      sharesOf(maps, output, method.centers, regions).forEach((data, k) =>
        add({ [regionName(regions, k)]: { data, shape: [data.length] } }, `shares/${output}/`),
      );
    }
  }
  return npzFile(arrays);
}
