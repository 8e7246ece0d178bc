// What the reader looks at: one value, which every panel shows and the address holds.

/**
 * @typedef {{output: string, layer: number | null, trajectory: number | null}} Row null: that of the selection
 * @typedef {object} Selection
 * @property {number} trajectory
 * @property {number} frame
 * @property {number} layer
 * @property {Row[]} rows
 * @property {number[] | null} channels the channels that are shown; null: all
 * @property {boolean} residual
 * @property {boolean} combined positive and negative in one picture
 * @property {boolean} overlay over the observation
 * @property {number} opacity of attribution over the observation
 * @property {number} threshold opacity below which a position stays empty
 * @property {boolean} smooth
 * @property {"trajectory" | "frame"} scale
 * @property {boolean} columns rows side by side
 */

/** @returns {Selection} */
export function initialSelection(manifest) {
  return {
    trajectory: 0,
    frame: 0,
    layer: defaultLayer(manifest),
    rows: [{ output: firstOutput(manifest), layer: null, trajectory: null }],
    channels: null,
    residual: false,
    combined: false,
    overlay: true,
    opacity: manifest.view?.attribution_weight ?? 0.9,
    threshold: 0,
    smooth: true,
    scale: "trajectory",
    columns: false,
  };
}

/** The middle of the layers: early ones are fine but shallow, late ones deep but coarse. */
function defaultLayer(manifest) {
  const layers = manifest.layers
    .map((layer, index) => ({ layer, index }))
    .filter(({ layer }) => layer.kind !== "input");
  return layers.length ? layers[Math.floor((layers.length - 1) / 2)].index : 0;
}

export function firstOutput(manifest) {
  return manifest.outputs[0]?.id ?? "value";
}

const clamp = (value, last) => Math.max(0, Math.min(last, Math.round(value) || 0));

/** A selection with a change made, everything in range. @returns {Selection} */
export function changed(manifest, selection, patch) {
  const next = { ...selection, ...patch };
  next.trajectory = clamp(next.trajectory, manifest.trajectories.length - 1);
  next.frame = clamp(next.frame, (manifest.trajectories[next.trajectory]?.steps ?? 1) - 1);
  next.layer = clamp(next.layer, manifest.layers.length - 1);
  if (next.layer !== selection.layer && !("channels" in patch)) next.channels = null;
  return next;
}

/** What a row shows, with the selection's layer and trajectory filled in. */
export function rowTarget(manifest, selection, row) {
  const trajectory = row.trajectory ?? selection.trajectory;
  const layer = row.layer ?? selection.layer;
  const steps = manifest.trajectories[trajectory].steps;
  return { output: row.output, trajectory, layer, frame: selection.frame, past: selection.frame >= steps };
}

/** What the first row shows, or would show if there were one: what is exported. */
export function firstTarget(manifest, selection) {
  const row = selection.rows[0] ?? { output: firstOutput(manifest), layer: null, trajectory: null };
  return rowTarget(manifest, selection, row);
}

/** Indices of the channels a row's picture shows: the selection's choice is about its own layer only. */
export function chosenChannels(selection, layer, layerIndex) {
  const all = Array.from({ length: layer.channels }, (_, k) => k);
  if (layerIndex !== selection.layer || selection.channels === null) return all;
  return all.filter((k) => selection.channels.includes(k));
}

/** The ids of the outputs shown in rows, each once. */
export function shownOutputs(selection) {
  return [...new Set(selection.rows.map((row) => row.output))];
}
