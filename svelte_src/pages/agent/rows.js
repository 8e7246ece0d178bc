// Rows of images: of an output, at the selection's layer and trajectory or at those of its own.
import { findOutput } from "../../data/questions.js";

/** @typedef {{output: string, layer: number | null, trajectory: number | null}} Row null: that of the selection */

const MAX_ROWS = 12;

/** Whether the page opens with the view of understanding-rl-vision: mixed hues, no residual, logits as they are. */
export const isOriginal = ({ view }) => view?.attribution_colors === "mixed";

export const firstOutput = (manifest) => manifest.outputs[0]?.id ?? "value";

/** What a row shows, with the selection's layer and trajectory filled in. */
export function rowTarget(manifest, selection, row) {
  const trajectory = row.trajectory ?? selection.trajectory;
  const layer = row.layer ?? selection.layer;
  const steps = manifest.trajectories[trajectory].steps;
  const { frame, instead } = selection;
  return { output: row.output, trajectory, layer, frame, instead, past: frame >= steps };
}

/** The targets of all rows, or of the default row if there is none. */
export function shownTargets(manifest, selection) {
  const rows = selection.rows.length
    ? selection.rows
    : [{ output: firstOutput(manifest), layer: null, trajectory: null }];
  return rows.map((row) => rowTarget(manifest, selection, row));
}

export const firstTarget = (manifest, selection) => shownTargets(manifest, selection)[0];

/** Whether no earlier row shows a row's trajectory: an observation is shown once. */
export function isFirstOfTrajectory(manifest, selection, index) {
  const row = selection.rows[index];
  if (!row) return false; // it has been removed, and its component is about to be
  const { trajectory } = rowTarget(manifest, selection, row);
  return !selection.rows.slice(0, index).some((row) => rowTarget(manifest, selection, row).trajectory === trajectory);
}

/** The ids of the outputs shown in rows, each once. */
export function shownOutputs(selection) {
  return [...new Set(selection.rows.map((row) => row.output))];
}

/** The field: "action-3~2b~1" is output action-3 at layer 2b of the first trajectory; "none" is a choice, too. */
export const ROWS = {
  format: (rows, { manifest }) => rows.map((row) => rowToText(manifest, row)).join(",") || "none",
  parse: (text, { manifest }) =>
    text
      .split(",")
      .map((part) => rowFromText(manifest, part))
      .filter(({ output }) => findOutput(manifest, output))
      .slice(0, MAX_ROWS),
};

function rowToText(manifest, row) {
  const layer = row.layer === null ? "" : manifest.layers[row.layer].slug;
  const trajectory = row.trajectory === null ? "" : String(row.trajectory + 1);
  return [row.output, layer, trajectory].join("~").replace(/~+$/, "");
}

function rowFromText(manifest, text) {
  const [output, slug, trajectory] = text.split("~");
  const layer = manifest.layers.findIndex((candidate) => candidate.slug === slug);
  const index = Number(trajectory) - 1;
  return {
    output,
    layer: layer < 0 ? null : layer,
    trajectory: trajectory && manifest.trajectories[index] ? index : null,
  };
}
