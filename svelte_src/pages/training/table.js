// The numbers of the checkpoints as a table.
import { mapOutputs } from "../../data/saliency.js";
import { entropyTerm } from "../../kit/time/numbers.js";
import { maskOf, playColumns } from "./axes.js";
import { regionName, sharesOf, totalsOf } from "./maps.js";
import { methodNamed } from "./checkpoints.js";
import { regionCount } from "./regions.js";

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

/**
 * Columns and rows, as `Table` takes them. Shares are means over the maps of the selected episode; they are missing while it
 * is loading. With brushes, all but the return is of the steps of the selected episode that these hold.
 *
 * @returns {{columns: {key: string, label: string}[], rows: object[]}}
 */
export function numbersTable(manifest, selection, plays) {
  const { checkpoints, unit } = manifest;
  const { regions, method } = selection;
  const outputs = [...new Set(checkpoints.flatMap(({ totals }) => Object.keys(totals ?? {})))];
  const actions = checkpoints[0].manifest.actions;
  const names = Array.from({ length: regionCount(regions) }, (_, k) => regionName(regions, k));
  const columns = [
    { key: "name", label: "Checkpoint" },
    { key: "step", label: unit ?? "steps" },
    { key: "return", label: "return" },
    { key: "error", label: "± error" },
    { key: "episodes", label: "episodes" },
    { key: "held", label: "brushed steps" },
    { key: "value", label: "mean value" },
    { key: "entropy", label: "mean entropy" },
    { key: "actions", label: "entropy of all actions" },
    ...actions.map(({ label }, k) => ({ key: `action-${k}`, label: `entropy of ${label}` })),
    ...outputs.map((id) => ({ key: `total-${id}`, label: `total saliency, ${id}` })),
    ...outputs.flatMap((id) => names.map((name, k) => ({ key: `share-${id}-${k}`, label: `${name}, ${id}` }))),
    ...outputs.map((id) => ({ key: `correlation-${id}`, label: `correlation with last, ${id}` })),
  ];
  const rows = checkpoints.map((checkpoint) => {
    const held = heldNumbers(manifest, selection, plays, checkpoint.index);
    const numbers = held ?? checkpoint;
    return {
      index: checkpoint.index,
      name: checkpoint.name,
      step: checkpoint.step,
      return: checkpoint.returns?.mean,
      error: checkpoint.returns?.error,
      episodes: checkpoint.returns?.episodes,
      held: held?.count,
      value: held?.value,
      entropy: numbers.entropy,
      actions: numbers.action_entropy,
      ...keyed("action", numbers.action_shares?.map(entropyTerm)),
      ...keyed("total", numbers.totals),
      ...regionMeans(methodNamed(checkpoint, method), plays[checkpoint.index].maps, regions, held?.mask),
      ...keyed("correlation", numbers.correlation),
    };
  });
  return { columns: columns.filter(({ key }) => rows.some((row) => isThere(row[key]))), rows };
}

const isThere = (value) => value !== undefined && value !== null;

const keyed = (name, values) =>
  Object.fromEntries(Object.entries(values ?? {}).map(([key, value]) => [`${name}-${key}`, value]));

/** Numbers of a checkpoint over the steps of its episode that brushes hold; null without brushes. */
export function heldNumbers(manifest, selection, plays, index) {
  if (!Object.keys(selection.brushes ?? {}).length) return null;
  const { series, maps } = plays[index];
  const columns = playColumns(manifest, selection, plays, index);
  if (!columns) return { count: null, totals: {} };
  const mask = maskOf(columns, selection.brushes);
  const inside = (values) => values && mean(Array.from(values).filter((_, t) => mask[t]));
  const count = mask.reduce((sum, one) => sum + one, 0);
  const taken = new Float64Array(manifest.checkpoints[index].manifest.actions.length);
  series.actions.data.forEach((action, t) => (taken[action] += mask[t] / count));
  const shares = count ? Array.from(taken) : [];
  return {
    mask,
    count,
    value: inside(columns.value),
    entropy: inside(columns.entropy),
    action_shares: shares,
    action_entropy: count ? shares.reduce((sum, share) => sum + entropyTerm(share), 0) : null,
    totals: Object.fromEntries(
      (maps ? mapOutputs(maps) : []).map((id) => [id, meanAt(maps, totalsOf(maps, id), mask)]),
    ),
  };
}

/** The mean of a number of maps, of those whose step a mask holds. */
const meanAt = ({ arrays: { steps } }, values, mask) =>
  mean(Array.from(values).filter((_, m) => !mask || mask[steps.data[m]]));

function regionMeans(method, maps, regions, mask) {
  if (!method || !maps) return {};
  const means = mapOutputs(maps).map((id) =>
    sharesOf(maps, id, method.centers, regions).map((share) => meanAt(maps, share, mask)),
  );
  return Object.assign({}, ...mapOutputs(maps).map((id, i) => keyed(`share-${id}`, means[i])));
}

/** The table as rows of cells, the first one with the columns' names. */
export const tableCells = ({ columns, rows }) => [
  columns.map(({ label }) => label),
  ...rows.map((row) => columns.map(({ key }) => row[key])),
];
