// The selection: one value that every panel shows and the address holds.
import { hasFeatures } from "../../data/manifest.js";

/**
 * @typedef {{output: string, layer: number | null, trajectory: number | null}} Row null: that of the selection
 * @typedef {object} Selection
 * @property {number} trajectory
 * @property {number} frame
 * @property {number} layer
 * @property {Row[]} rows
 * @property {Object<number, number[]>} channels of each layer (by its index) the channels that are shown; all where it has none
 * @property {boolean} residual whether the rest is shown
 * @property {boolean} mixed hues of all features mixed, as in the paper; otherwise a position has that of its strongest feature
 * @property {boolean} combined positive and negative in one image
 * @property {boolean} overlay over the observation
 * @property {boolean} grey the observation below saliency is grey
 * @property {number} opacity of attribution over the observation
 * @property {number} threshold opacity below which a position stays empty
 * @property {boolean} smooth
 * @property {"rows" | "trajectory" | "frame" | "all"} scale what has a scale of its own; "rows": those of one layer and unit share
 *   one; "all": so do those of all trajectories
 * @property {boolean} columns rows side by side
 * @property {number} visible steps that the timeline shows at a time
 * @property {"standard" | "safe"} palette of the channels; "safe": for color-blind readers
 * @property {{layer: number, channel: number} | null} solo the channel that images of its layer show alone
 * @property {import("../../data/find.js").Search | null} find frames that are looked for
 * @property {import("./box.js").Box | null} box a part of the observation whose attribution is shown over time
 * @property {{layer: number, channel: number} | null} feature that is open
 * @property {Object<string, Object<number, string>>} names that the reader gave to features (data/names.js)
 */

/** @returns {Selection} */
export function initialSelection(manifest) {
  const original = isOriginal(manifest);
  return {
    trajectory: 0,
    frame: 0,
    layer: defaultLayer(manifest),
    rows: [{ output: firstOutput(manifest), layer: null, trajectory: null }],
    channels: {},
    residual: !original,
    mixed: original,
    combined: false,
    overlay: manifest.observation?.aligned ?? true,
    grey: true,
    opacity: manifest.view?.attribution_weight ?? 0.9,
    threshold: 0,
    smooth: true,
    scale: original ? "trajectory" : "rows",
    columns: false,
    visible: defaultVisible(manifest),
    palette: manifest.view?.palette ?? "standard",
    solo: null,
    find: null,
    box: null,
    feature: null,
    names: {},
  };
}

/** Whether the page opens with the view of understanding-rl-vision: mixed hues, no rest, logits as they are. */
export const isOriginal = ({ view }) => view?.attribution_colors === "mixed";

/** The middle of the layers: early ones are fine but shallow, late ones deep but coarse. */
function defaultLayer(manifest) {
  const layers = manifest.layers.map((layer, index) => ({ layer, index })).filter(({ layer }) => hasFeatures(layer));
  return layers.length ? layers[Math.floor((layers.length - 1) / 2)].index : 0;
}

export function firstOutput(manifest) {
  return manifest.outputs[0]?.id ?? "value";
}

const defaultVisible = ({ view }) => Math.round(Number(view?.scrubber_visible_duration)) || 256;

/** Fewest and most steps that the timeline shows: up to the longest trajectory, and what the option asks for. */
function visibleRange(manifest) {
  const longest = Math.max(...manifest.trajectories.map(({ steps }) => steps));
  const given = defaultVisible(manifest);
  return { least: Math.min(16, given), most: Math.max(256, given, longest) };
}

function clampVisible(manifest, value) {
  const { least, most } = visibleRange(manifest);
  return Math.max(least, Math.min(most, Math.round(value) || defaultVisible(manifest)));
}

const clamp = (value, last) => Math.max(0, Math.min(last, Math.round(value) || 0));

/** A selection with a change made, everything in range. @returns {Selection} */
export function changed(manifest, selection, patch) {
  const next = { ...selection, ...patch };
  next.trajectory = clamp(next.trajectory, manifest.trajectories.length - 1);
  next.frame = clamp(next.frame, (manifest.trajectories[next.trajectory]?.steps ?? 1) - 1);
  next.layer = clamp(next.layer, Math.max(0, manifest.layers.length - 1));
  next.feature = knownFeature(manifest, selection, next.feature);
  if ("visible" in patch) next.visible = clampVisible(manifest, next.visible);
  return next;
}

/** A feature that the page has, the same value as before if it is the same one; else null. */
function knownFeature({ layers }, before, feature) {
  const { layer, channel } = feature ?? {};
  if (layer === before.feature?.layer && channel === before.feature?.channel) return before.feature;
  return layers[layer]?.features && channel >= 0 && channel < layers[layer].channels ? { layer, channel } : null;
}

/** What a row shows, with the selection's layer and trajectory filled in. */
export function rowTarget(manifest, selection, row) {
  const trajectory = row.trajectory ?? selection.trajectory;
  const layer = row.layer ?? selection.layer;
  const steps = manifest.trajectories[trajectory].steps;
  return { output: row.output, trajectory, layer, frame: selection.frame, past: selection.frame >= steps };
}

/** The targets of all rows, or of the default row if there is none. */
export function shownTargets(manifest, selection) {
  const rows = selection.rows.length
    ? selection.rows
    : [{ output: firstOutput(manifest), layer: null, trajectory: null }];
  return rows.map((row) => rowTarget(manifest, selection, row));
}

/** Whether no earlier row shows a row's trajectory: an observation is shown once. */
export function isFirstOfTrajectory(manifest, selection, index) {
  const row = selection.rows[index];
  if (!row) return false; // it has been removed, and its component is about to be
  const { trajectory } = rowTarget(manifest, selection, row);
  return !selection.rows.slice(0, index).some((row) => rowTarget(manifest, selection, row).trajectory === trajectory);
}

export const firstTarget = (manifest, selection) => shownTargets(manifest, selection)[0];

const allOf = (layer) => Array.from({ length: layer.channels }, (_, k) => k);

/** Indices of the channels that images of a layer show. */
export function chosenChannels(selection, layer, layerIndex) {
  const chosen = selection.channels[layerIndex];
  return chosen ? allOf(layer).filter((k) => chosen.includes(k)) : allOf(layer);
}

/** Which channels an image shows: those of the selection, or only the one under the pointer, or the one that is soloed. */
export function shownChannels(selection, layer, layerIndex, isolated) {
  const alone = [isolated, selection.solo].find((place) => place?.layer === layerIndex);
  if (alone) {
    const rest = alone.channel === layer.channels;
    return { chosen: rest ? [] : [alone.channel], residual: rest };
  }
  return { chosen: chosenChannels(selection, layer, layerIndex), residual: selection.residual };
}

/** The choices of channels with that of one layer replaced; null, or a list of all, is no choice. */
export function withChannels(manifest, channels, layerIndex, chosen) {
  const all = allOf(manifest.layers[layerIndex]);
  if (chosen === null && !(layerIndex in channels)) return channels;
  const next = { ...channels, [layerIndex]: all.filter((k) => chosen?.includes(k)) };
  if (chosen === null || next[layerIndex].length === all.length) delete next[layerIndex];
  return next;
}

/** The ids of the outputs shown in rows, each once. */
export function shownOutputs(selection) {
  return [...new Set(selection.rows.map((row) => row.output))];
}

/** Show or hide one channel of the selected layer. */
export function toggleChannel(page, channel) {
  const { now } = page.selection;
  const layer = page.manifest.layers[now.layer];
  if (!(channel < layer?.channels)) return;
  const shown = chosenChannels(now, layer, now.layer);
  chooseChannels(page, now.layer, shown.includes(channel) ? shown.filter((k) => k !== channel) : [...shown, channel]);
}

/** Show these channels of a layer; null: all. */
export function chooseChannels({ manifest, selection }, layer, chosen) {
  if (!manifest.layers[layer]) return;
  const { channels, solo } = selection.now;
  selection.change({
    channels: withChannels(manifest, channels, layer, chosen),
    solo: solo?.layer === layer ? null : solo,
  });
}

export const isPlace = (place, layer, channel) => place?.layer === layer && place.channel === channel;

/** Show one channel of a layer alone; the same one again: as before. */
export function toggleSolo({ selection }, { layer, channel }) {
  selection.change({ solo: isPlace(selection.now.solo, layer, channel) ? null : { layer, channel } });
}
