// What the sections of a page of a recurrent agent's memory hold.
import { actionLabel } from "../../data/actions.js";
import { endOf } from "./data.js";
import { clusterName } from "./directions.js";

/** Data of the sections, null where the page lacks one (docs/page-format.md); actions are called what the page calls them. */
export function readMemory(manifest) {
  const { actions } = manifest;
  const dataOf = (kind, read = (data) => data) => {
    const section = manifest.sections.find((one) => one.kind === kind);
    return section?.data ? read(section.data) : null;
  };
  return {
    states: dataOf("states", (data) => ({ ...data, outputs: data.outputs?.map(outputText(actions)) })),
    stateMap: dataOf("state_map", (data) => ({ ...data, colors: data.colors.map(mapColor(actions)) })),
    matrix: dataOf("memory_matrix"),
    windows: dataOf("windows", (data) => ({ ...data, windows: data.windows.map(withEnd(manifest)) })),
    interventions: dataOf("interventions", (data) => ({
      ...data,
      interventions: data.interventions.map((one) => ({ ...one, rows: one.rows.map(namedMeasure(actions)) })),
    })),
    simulator: dataOf("simulator", (data) => ({
      ...data,
      compass: data.compass && namedCompass(actions, data.compass),
    })),
  };
}

/** The first outputs are the actions. */
const outputText = (actions) => (output, i) => (i < actions.length ? `action ${actionLabel(actions, i)}` : output);

/** What ended the episode, of windows whose last step is its last one. */
const withEnd = (manifest) => (window) => {
  const trajectory = manifest.trajectories[window.trajectory];
  return window.frame === trajectory?.steps - 1 ? { ...window, ended: endOf(trajectory) } : window;
};

/** Points have the colors of their actions. */
const mapColor = (actions) => (color) =>
  color.key === "action" && actions.length
    ? { ...color, names: actions.map(({ label }) => label), hues: actions.map((one) => one.color) }
    : color;

/** Clusters count from 1 for readers. */
const namedMeasure = (actions) => (row) => ({
  ...row,
  measure: row.measure
    .replace(/^action (\d+): .*$/, (_all, index) => `action ${actionLabel(actions, Number(index))}`)
    .replace(/^cluster (\d+)$/, (_all, number) => clusterName(Number(number))),
});

const namedCompass = (actions, compass) => ({
  ...compass,
  actions: compass.actions.map((_, index) => actionLabel(actions, index)),
});
