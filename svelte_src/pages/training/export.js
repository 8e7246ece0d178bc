// Files of what is shown.
import { get } from "svelte/store";
import { encodeNpz } from "../../data/npz.js";
import { mapOutputs } from "../../data/saliency.js";
import { figureSvg } from "../../kit/image/figure.js";
import { frameImage, framesFigure } from "../../kit/image/frames.js";
import { toCsv } from "../../kit/shell/format.js";
import { frameAt } from "../../kit/time/align.js";
import { figureOfTracks } from "../../kit/time/figure.js";
import { axesOf, maskOf, playColumns } from "./axes.js";
import { letterOf, methodNamed } from "./checkpoints.js";
import { regionName, sharesOf } from "./maps.js";

/** The frames of the chosen checkpoints at a step, with their maps, side by side. */
export async function stepFigure({ selection, views, manifest, plays }, step, scale) {
  const now = selection.now;
  const images = [];
  for (const [place, index] of now.chosen.entries()) {
    const view = views[index];
    const { checkpoint } = view;
    const { steps } = view.manifest.trajectories[now.episode] ?? {};
    if (!steps) continue;
    const frame = frameAt(now.sync, step, steps, manifest.lengths[now.episode]);
    const maps = { chunk: get(plays)[index].maps, method: methodNamed(checkpoint, now.method) };
    const image = await frameImage(view, { trajectory: now.episode, frame }, maps, now, scale);
    images.push({ ...image, lines: [`${letterOf(place)} ${checkpoint.name}`, `step ${frame + 1} of ${steps}`] });
  }
  if (!images.length) throw new Error("No chosen checkpoint has this episode.");
  const caption = [manifest.title, `episode ${now.episode + 1}`].filter(Boolean).join(" \u00b7 ");
  return framesFigure(caption, images, now.palette);
}

export const tracksSvg = (page) => figureSvg(figureOfTracks(page, [page.manifest.title]));

/** The lines of the panel Steps, as they are drawn. @returns {Promise<Blob>} */
export const linesPng = () =>
  new Promise((resolve) => document.querySelector("[data-testid=steps-canvas]").toBlob(resolve, "image/png"));

/** Every step of the chosen checkpoints with all numbers of the panel Steps, and whether the brushes hold it. */
export function stepsCsv({ manifest, selection, plays }) {
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
  return new Blob([toCsv([header, ...rows])], { type: "text/csv" });
}

/** Series, maps and shares of the chosen checkpoints as arrays. */
export function arraysNpz({ manifest, selection, plays }) {
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
  return new Blob([encodeNpz(arrays)], { type: "application/octet-stream" });
}
