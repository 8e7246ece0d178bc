// Tables of the tabs: what the page shows of them, and what it exports. A table is {columns: [{key, label}], rows: [{key: value}]}.
import { actionLabel } from "../../data/actions.js";
import { detectable } from "../../data/causal.js";
import { rowOf } from "../../data/series.js";
import { formatNumber } from "../../kit/shell/format.js";
import { consistencyAt, intervalAt, matrixAt, PATHS } from "./causes.js";
import { clusterName, correlationsOf, cosinesOf, directionTable } from "./directions.js";
import { MEASURES } from "./replay.js";
import { PREDICTIONS, QUANTITIES } from "./simulator.js";

const columnsOf = (rows) => [...new Set(rows.flatMap(Object.keys))].map((key) => ({ key, label: key }));
const table = (rows) => ({ columns: columnsOf(rows), rows });

const signed = (value) => (Number.isFinite(value) && value > 0 ? "+" : "") + formatNumber(value, 3);

/** Measures without and with an intervention. */
export const interventionTable = ({ rows }) => ({
  columns: [
    { key: "measure", label: "Measure" },
    { key: "unedited", label: "Without" },
    { key: "edited", label: "With" },
    { key: "difference", label: "Difference" },
    { key: "adjusted_p", label: "p, adjusted" },
    { key: "effect", label: "Effect" },
    { key: "found", label: "Detectable from" },
  ],
  rows: rows.map((row) => ({
    ...row,
    found: detectable(row),
    range: `(${row.interval.map(signed).join(" to ")})`,
  })),
});

/** Every number of the cards of directions. */
function componentRows({ memory: { states }, manifest }, arrays, label) {
  const { rows } = directionTable({ states, arrays, label, actions: manifest.actions });
  return rows.map(({ index, correlate: _best, correlation: _value, ...row }) => ({
    component: index + 1,
    ...row,
    ...Object.fromEntries(
      correlationsOf(arrays, index, manifest.actions).map(({ label: name, value }) => [`correlation with ${name}`, value]),
    ),
    ...Object.fromEntries((rowOf(arrays.readout, index) ?? []).map((value, i) => [`weight on ${states.outputs[i]}`, value])),
    ...Object.fromEntries(cosinesOf(arrays, index).map(({ index: k, value }) => [`cosine with ${label(k)}`, value])),
  })); // prettier-ignore
}

function behaviourRows({ memory: { states }, manifest }, arrays, label) {
  return Array.from({ length: states.behaviours.count }, (_, k) => ({
    behaviour: k + 1,
    steps: arrays.sizes?.data[k],
    ...Object.fromEntries((rowOf(arrays.components, k) ?? []).map((value, d) => [`mean of ${label(d)}`, value])),
    ...Object.fromEntries(
      (rowOf(arrays.actions, k) ?? []).map((value, a) => [
        `share of action ${actionLabel(manifest.actions, a)}`,
        value,
      ]),
    ),
  }));
}

/** Of each lag and cluster every entry of the matrices. */
function causeRows({ memory: { states } }, arrays, label) {
  const size = states.directions.length;
  const groups = [null, ...(arrays["correlation.by"] ? states.causes.clusters.keys() : [])];
  /** @type {object[]} */
  const rows = [];
  for (const cluster of groups) {
    states.causes.lags.forEach((lag, l) => {
      const correlation = matrixAt(arrays, "correlation", l, cluster);
      const paths = PATHS.map((path) => [path.label, matrixAt(arrays, path.key, l, cluster)]);
      for (let at = 0; at < size * size; at += 1) {
        const [low, high] = intervalAt(arrays, l, cluster, at) ?? [];
        rows.push({
          steps: cluster === null ? "all" : clusterName(states.causes.clusters[cluster]),
          lag,
          earlier: label(Math.floor(at / size)),
          later: label(at % size),
          correlation: correlation[at],
          low,
          high,
          ...Object.fromEntries(paths.filter(([, matrix]) => matrix).map(([name, matrix]) => [`influence through ${name}`, matrix[at]])), // prettier-ignore
        });
      }
    });
  }
  return rows;
}

function consistencyRows({ memory: { states } }, arrays) {
  const groups = [null, ...(arrays["consistency.by.share"] ? states.causes.clusters.keys() : [])];
  return groups.flatMap((cluster) => {
    const found = consistencyAt(arrays, cluster);
    if (!found) return [];
    return states.causes.lags.map((lag, l) => ({
      steps: cluster === null ? "all" : clusterName(states.causes.clusters[cluster]),
      lag,
      share: found.share?.[l],
      null_low: found.low?.[l],
      null_high: found.high?.[l],
      p: found.p?.[l],
    }));
  });
}

function replayRows({ memory: { states } }, arrays) {
  return states.memory.changes.flatMap((change, c) => {
    const numbers = MEASURES.filter(({ id }) => arrays[id]).map(({ id }) => ({
      id,
      values: rowOf(arrays[id], c) ?? [],
      ends: rowOf(arrays[`${id}_interval`], c),
    }));
    return Array.from({ length: numbers[0]?.values.length ?? 0 }, (_, lag) => ({
      change,
      steps: lag,
      ...Object.assign({}, ...numbers.map(({ id, values, ends }) => ({ [id]: values[lag], ...(ends && { [`${id}_low`]: ends[2 * lag], [`${id}_high`]: ends[2 * lag + 1] }) }))), // prettier-ignore
    }));
  });
}

const interventionRows = ({ memory: { interventions } }) =>
  interventions.interventions.flatMap(({ label, rows }) =>
    rows.map(({ interval: [low, high], ...row }) => ({ intervention: label, ...row, low, high })),
  );

function errorRows({ memory: { simulator } }) {
  const rows = [];
  for (const { id: quantity } of QUANTITIES) {
    for (const { id: prediction } of PREDICTIONS) {
      const [mean, low, high] = simulator.quality?.errors[quantity]?.[prediction] ?? [[]];
      mean.forEach((value, h) => rows.push({ quantity, prediction, horizon: h + 1, mean: value, p10: low?.[h], p90: high?.[h] })); // prettier-ignore
    }
  }
  return rows;
}

/**
 * The tables that each tab has: name, the chunk that they need, and rows from its arrays.
 *
 * @typedef {{name: string, chunk?: (memory: any) => string, there?: (memory: any) => any, rows: (page: any, arrays: any, label: any) => object[]}} TabTable
 * @type {Record<string, TabTable[]>}
 */
const TABLES = {
  components: [{ name: "components", chunk: ({ states }) => states?.cards, rows: componentRows }],
  behaviours: [{ name: "behaviours", chunk: ({ states }) => states?.behaviours?.chunk, rows: behaviourRows }],
  causes: [
    { name: "causes", chunk: ({ states }) => states?.causes?.chunk, rows: causeRows },
    { name: "agreement", chunk: ({ states }) => states?.causes?.chunk, rows: consistencyRows },
  ],
  remembering: [{ name: "memory", chunk: ({ states }) => states?.memory?.chunk, rows: replayRows }],
  interventions: [{ name: "interventions", there: ({ interventions }) => interventions, rows: interventionRows }],
  simulator: [{ name: "simulator", there: ({ simulator }) => simulator, rows: errorRows }],
};

/** The names of a tab's tables that the page has. */
export const tablesOf = (memory, tab) =>
  (TABLES[tab] ?? []).filter(({ chunk, there }) => (chunk ?? there)?.(memory)).map(({ name }) => name);

/** A table by its name, its chunk loaded. @returns {Promise<{columns: object[], rows: object[]}>} */
export async function loadTable(page, name, label) {
  const { chunk, rows } = /** @type {TabTable} */ (
    Object.values(TABLES)
      .flat()
      .find((one) => one.name === name)
  );
  const file = chunk?.(page.memory);
  return table(rows(page, file ? (await page.chunks.get(file)).arrays : null, label));
}
