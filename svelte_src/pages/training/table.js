// The numbers of the checkpoints as a table.
import { mapOutputs } from "../../data/saliency.js";
import { entropyTerm } from "../../kit/time/numbers.js";
import { regionName, sharesOf } from "./maps.js";
import { methodNamed } from "./checkpoints.js";
import { regionCount } from "./regions.js";

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * Columns and rows, as `Table` takes them. Shares are means over the maps of the selected episode; they are missing while it
 * is loading.
 *
 * @returns {{columns: {key: string, label: string}[], rows: object[]}}
 */
export function numbersTable({ checkpoints, unit }, { regions, method }, plays) {
  const outputs = [...new Set(checkpoints.flatMap(({ totals }) => Object.keys(totals ?? {})))];
  const actions = checkpoints[0].manifest.actions;
  const names = Array.from({ length: regionCount(regions) }, (_, k) => regionName(regions, k));
  const columns = [
    { key: "name", label: "Checkpoint" },
    { key: "step", label: unit ?? "steps" },
    { key: "return", label: "return" },
    { key: "error", label: "± error" },
    { key: "episodes", label: "episodes" },
    { key: "entropy", label: "mean entropy" },
    { key: "actions", label: "entropy of all actions" },
    ...actions.map(({ label }, k) => ({ key: `action-${k}`, label: `entropy of ${label}` })),
    ...outputs.map((id) => ({ key: `total-${id}`, label: `total saliency, ${id}` })),
    ...outputs.flatMap((id) => names.map((name, k) => ({ key: `share-${id}-${k}`, label: `${name}, ${id}` }))),
    ...outputs.map((id) => ({ key: `correlation-${id}`, label: `correlation with last, ${id}` })),
  ];
  const rows = checkpoints.map((checkpoint) => ({
    index: checkpoint.index,
    name: checkpoint.name,
    step: checkpoint.step,
    return: checkpoint.returns?.mean,
    error: checkpoint.returns?.error,
    episodes: checkpoint.returns?.episodes,
    entropy: checkpoint.entropy,
    actions: checkpoint.action_entropy,
    ...keyed("action", checkpoint.action_shares?.map(entropyTerm)),
    ...keyed("total", checkpoint.totals),
    ...regionMeans(methodNamed(checkpoint, method), plays[checkpoint.index].maps, regions),
    ...keyed("correlation", checkpoint.correlation),
  }));
  return { columns: columns.filter(({ key }) => rows.some((row) => isThere(row[key]))), rows };
}

const isThere = (value) => value !== undefined && value !== null;

const keyed = (name, values) =>
  Object.fromEntries(Object.entries(values ?? {}).map(([key, value]) => [`${name}-${key}`, value]));

function regionMeans(method, maps, regions) {
  if (!method || !maps) return {};
  const means = mapOutputs(maps).map((id) => sharesOf(maps, id, method.centers, regions).map(mean));
  return Object.assign({}, ...mapOutputs(maps).map((id, i) => keyed(`share-${id}`, means[i])));
}

/** The table as rows of cells, the first one with the columns' names. */
export const tableCells = ({ columns, rows }) => [
  columns.map(({ label }) => label),
  ...rows.map((row) => columns.map(({ key }) => row[key])),
];
