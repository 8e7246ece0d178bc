// Files of what is shown. Everything drawn here comes from chunks, so that canvases can be read.
import { derived, get } from "svelte/store";
import { takenAction } from "../../data/actions.js";
import { decompositionFor, findOutput } from "../../data/questions.js";
import { outputSeries, totalsAt } from "../../data/series.js";
import { figureSvg } from "../../kit/export/figure.js";
import { CHARTS, csvFile, tracksFile } from "../../kit/export/files.js";
import { fileName, outputName } from "../../kit/shell/format.js";
import { barsFigure } from "./charts.js";
import { captionOf, frameFigure, rowCaption } from "./figure.js";
import { isSaliency, saliencyTotals } from "./saliency.js";
import { objectTables } from "./objectTables.js";
import { firstTarget, shownTargets } from "./rows.js";

const FIGURES = [
  { id: "bars", label: "Bars (SVG)", make: async (page) => figureSvg(await barsFigure(page)) },
  tracksFile((page) => [captionOf(page), rowCaption(page, shownTargets(page.manifest, page.selection.now)[0])]),
];

/** What the page saves. @param {import("../../types").Page} page @returns a store of an Offer of kit/export/files.js */
export const filesOf = ({ manifest, selection }) =>
  derived(selection, (now) => {
    const { trajectory, layer: index } = firstTarget(manifest, now);
    const layer = manifest.layers[index].name;
    const stem = `trajectory-${trajectory + 1}`;
    const objects = objectTables(manifest, stem);
    const tables =
      `Every step of trajectory ${trajectory + 1}: action, reward, ${manifest.bookmarks ? "advantage, " : ""}outputs, probabilities, and totals of ` +
      `the first row's features, at layer ${layer}.${objects.length ? " Also the effect of each removed object, and the means by type." : ""}`;
    return {
      word: "frame",
      texts: {
        figures:
          "All rows, with a caption (checkpoint, frame, layer, output, scale) and the features’ colors and names.",
        clip: "The same figure over time",
        tables,
      },
      tablesTitle: "Numbers of a trajectory",
      stem,
      suffix: `-${fileName(layer)}`,
      steps: manifest.trajectories[trajectory].steps,
      frame: now.frame,
      figureAt: frameFigure,
      figures: objects.length ? [...FIGURES, CHARTS] : FIGURES,
      tables: [{ id: "csv", label: "Timeline (CSV)", make: timelineCsv, name: `${stem}.csv` }, ...objects],
    };
  });

/** Every step of the first row's trajectory. @returns {Promise<Blob>} */
async function timelineCsv({ manifest, selection, chunks, names }) {
  const { trajectory, layer, output } = firstTarget(manifest, selection.now);
  const { arrays } = await chunks.get(manifest.trajectories[trajectory].series);
  const asked = manifest.outputs.some(({ id }) => id === output) ? [] : [findOutput(manifest, output)];
  const outputs = [...manifest.outputs, ...asked]
    .map((choice) => [outputName(choice), outputSeries(arrays, choice)])
    .filter(([, values]) => values);
  const parts = await rowParts({ manifest, chunks, names }, { layer, output, trajectory }, arrays);
  const count = manifest.actions.length;
  const header = ["trajectory", "frame", "new episode", "action", "reward"];
  if (arrays.advantages) header.push("advantage");
  header.push(...outputs.map(([label]) => label));
  const factors = manifest.agent.factors ?? [];
  header.push(...factors.map(({ label }) => label));
  if (arrays.probabilities) header.push(...manifest.actions.map(({ label }) => `probability of ${label}`));
  header.push(...parts.map(({ name }) => name));
  const lines = Array.from(arrays.rewards.data, (_, t) => {
    const line = [trajectory + 1, t + 1, arrays.firsts.data[t], takenAction(manifest, arrays, t)];
    line.push(arrays.rewards.data[t]);
    if (arrays.advantages) line.push(arrays.advantages.data[t]);
    line.push(...outputs.map(([, values]) => values[t]));
    line.push(...factors.map((_, i) => arrays[`info.action.${i}`].data[t]));
    if (arrays.probabilities) line.push(...arrays.probabilities.data.subarray(t * count, (t + 1) * count));
    return [...line, ...parts.map(({ valueAt }) => valueAt(t))];
  });
  return csvFile([header, ...lines]);
}

/** Columns of a row: sums of saliency maps, or the decomposition; of an output that the page stores also the positive and the negative part of each feature. */
async function rowParts({ manifest, chunks, names }, { layer: index, output: id, trajectory }, series) {
  const layer = manifest.layers[index];
  if (isSaliency(layer)) {
    const columns = layer.outputs.map(async ({ id, label }) => {
      const totals = await saliencyTotals({ manifest, chunks }, layer, id, trajectory);
      return { name: `saliency by ${layer.name}, ${label}`, valueAt: (t) => totals[t] };
    });
    return Promise.all(columns);
  }
  const name = layer.totals?.[trajectory];
  if (!name) return [];
  const { arrays } = await chunks.get(name);
  const column = (text, valueAt) => ({ name: `${layer.name} ${text}`, valueAt });
  const word = (k) => get(names).label(index, k);
  const numbers = arrays[`totals.${id}`];
  const signs = Array.from({ length: numbers?.shape[1] ?? 0 }, (_, k) =>
    ["positive", "negative"].map((sign) => column(`${word(k)} ${sign}`, (t) => totalsAt(numbers, t)[k][sign])),
  );
  const decomposition = decompositionFor(manifest, arrays, findOutput(manifest, id), series);
  const whole = decomposition
    ? ["baseline", "memory", "completeness_error"].map((part) =>
        column(part.replace("_", " "), (t) => decomposition[part][t]),
      )
    : [];
  const net = decomposition && !numbers ? [...decomposition.features, decomposition.residual] : [];
  return [...whole, ...signs.flat(), ...net.map((values, k) => column(word(k), (t) => values[t]))];
}
