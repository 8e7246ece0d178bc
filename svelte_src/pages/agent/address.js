// The selection in the page's address: `?layer=2b&trajectory=3&frame=120`, counted from 1, defaults left out.
import { hasFeatures } from "../../data/manifest.js";
import { namesFromTexts, namesToTexts, naming } from "../../data/names.js";
import { findOutput } from "../../data/questions.js";
import { frameName } from "../../kit/shell/format.js";
import { boxFromText, boxToText } from "./box.js";
import { searchFromText, searchToText } from "../../data/find.js";
import { changed, initialSelection, withChannels } from "./selection.js";

/** A change of these is a place to come back to with the browser's back button. */
export const PLACES = ["trajectory", "layer", "feature"];
const MAX_ROWS = 12;
const PALETTES = ["standard", "safe"];
const SCALES = ["rows", "trajectory", "frame", "all"];
const FLAGS = ["residual", "mixed", "combined", "columns", "overlay", "grey", "smooth"];

/** @returns {string} the query, with its question mark */
export function toQuery(manifest, selection, kept = {}) {
  const defaults = initialSelection(manifest);
  const query = new URLSearchParams(kept);
  if (manifest.layers.length) query.set("layer", manifest.layers[selection.layer].key);
  query.set("trajectory", selection.trajectory + 1);
  query.set("frame", selection.frame + 1);
  const rows = selection.rows.map((row) => rowToText(manifest, row)).join(",");
  if (rows !== defaults.rows.map((row) => rowToText(manifest, row)).join(",")) query.set("rows", rows || "none");
  const channels = channelsToText(manifest, selection);
  if (channels) query.set("channels", channels);
  for (const name of FLAGS) if (selection[name] !== defaults[name]) query.set(name, selection[name] ? "1" : "0");
  if (selection.opacity !== defaults.opacity) query.set("opacity", selection.opacity);
  if (selection.threshold !== 0) query.set("threshold", selection.threshold);
  if (selection.scale !== defaults.scale) query.set("scale", selection.scale);
  if (selection.visible !== defaults.visible) query.set("visible", selection.visible);
  // Other readers may prefer another palette, so only the standard one is left out.
  if (selection.palette !== "standard" || defaults.palette !== "standard") query.set("palette", selection.palette);
  if (selection.solo) query.set("solo", placeToText(manifest, selection.solo));
  if (selection.find) query.set("find", searchToText(manifest, selection.find));
  if (selection.box) query.set("box", boxToText(selection.box));
  if (selection.feature) query.set("feature", featureToText(manifest, selection));
  for (const text of namesToTexts(manifest, selection.names)) query.append("name", text);
  return `?${query}`;
}

/** @returns {import("./selection.js").Selection} what a query says, and defaults for the rest and for what is wrong */
export function fromQuery(manifest, text) {
  const query = new URLSearchParams(text);
  const patch = {};
  const number = (name) => (/^\d*\.?\d+$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  if (number("trajectory") !== null) patch.trajectory = number("trajectory") - 1;
  if (number("frame") !== null) patch.frame = number("frame") - 1;
  const layer = manifest.layers.findIndex(({ key }) => key === query.get("layer"));
  if (layer >= 0) patch.layer = layer;
  if (query.has("rows")) patch.rows = rowsFromText(manifest, query.get("rows"));
  if (query.has("channels")) {
    patch.channels = channelsFromText(manifest, query.get("channels"), patch.layer ?? initialSelection(manifest).layer);
  }
  for (const name of FLAGS) if (/^[01]$/.test(query.get(name) ?? "")) patch[name] = query.get(name) === "1";
  if (number("opacity") !== null) patch.opacity = Math.min(1, number("opacity"));
  if (number("threshold") !== null) patch.threshold = Math.min(1, number("threshold"));
  if (SCALES.includes(query.get("scale"))) patch.scale = query.get("scale");
  if (number("visible")) patch.visible = number("visible");
  if (PALETTES.includes(query.get("palette"))) patch.palette = query.get("palette");
  if (query.has("solo")) patch.solo = placeFromText(manifest, query.get("solo"));
  if (query.has("find")) patch.find = searchFromText(manifest, query.get("find"));
  if (query.has("box")) patch.box = boxFromText(manifest.observation, query.get("box"));
  const selection = changed(manifest, initialSelection(manifest), patch);
  selection.names = namesFromTexts(manifest, query.getAll("name"));
  return changed(manifest, selection, {
    feature: featureFromText(manifest, query.get("feature") ?? "", selection.layer),
  });
}

/** "3": of the selected layer; "4a~3": of layer 4a. */
const featureToText = (manifest, { layer, feature }) =>
  feature.layer === layer ? `${feature.channel + 1}` : placeToText(manifest, feature);

const featureFromText = (manifest, text, layer) =>
  /^\d+$/.test(text) ? { layer, channel: Number(text) - 1 } : placeFromText(manifest, text);

/** The place that a query says: names belong to features, and going to a place leaves them as they are. */
export function placeFromQuery(manifest, text) {
  const place = fromQuery(manifest, text);
  delete place.names;
  return place;
}

/** What a note can be on, as {place, query}: the frame in view, and the feature {layer, channel} that was looked at last. */
export function notePlaces(manifest, selection, feature) {
  const layer = manifest.layers[selection.layer];
  const place = `${frameName(selection)}${layer ? `, layer ${layer.name}` : ""}`;
  const query = (patch) => toQuery(manifest, { ...changed(manifest, selection, patch), names: {} });
  const view = { place, query: query({ feature: null }) };
  if (!feature) return [view];
  const name = naming(manifest, selection.names).name(feature.layer, feature.channel);
  const number = `feature ${feature.channel + 1} of layer ${manifest.layers[feature.layer].name}`;
  return [view, { place: name ? `${name}, ${number}` : number, query: query({ layer: feature.layer, feature }) }];
}

function rowToText(manifest, row) {
  const layer = row.layer === null ? "" : manifest.layers[row.layer].slug;
  const trajectory = row.trajectory === null ? "" : String(row.trajectory + 1);
  return [row.output, layer, trajectory].join("~").replace(/~+$/, "");
}

function rowsFromText(manifest, text) {
  const rows = text.split(",").map((part) => {
    const [output, slug, trajectory] = part.split("~");
    const layer = manifest.layers.findIndex((candidate) => candidate.slug === slug);
    const index = Number(trajectory) - 1;
    return {
      output,
      layer: layer < 0 ? null : layer,
      trajectory: trajectory && manifest.trajectories[index] ? index : null,
    };
  });
  return rows.filter((row) => findOutput(manifest, row.output)).slice(0, MAX_ROWS);
}

/** "2b~3": the third channel of layer 2b; "2b~rest": its residual. */
function placeToText({ layers }, { layer, channel }) {
  return `${layers[layer].slug}~${channel < layers[layer].channels ? channel + 1 : "rest"}`;
}

function placeFromText({ layers }, text) {
  const [slug, name] = text.split("~");
  const layer = layers.findIndex((candidate) => candidate.slug === slug);
  if (layer < 0) return null;
  const { channels, kind } = layers[layer];
  if (name === "rest") return hasFeatures({ kind }) ? { layer, channel: channels } : null;
  const channel = Number(name) - 1;
  return Number.isInteger(channel) && channel >= 0 && channel < channels ? { layer, channel } : null;
}

/** "1.3,4a~2": channels 1 and 3 of the selected layer, and 2 of layer 4a; "none" is a choice, too. */
function channelsToText(manifest, { channels, layer }) {
  const indices = Object.keys(channels).map(Number);
  const ordered = [...indices.filter((index) => index === layer), ...indices.filter((index) => index !== layer)];
  const parts = ordered.map((index) => {
    const list = channels[index].map((k) => k + 1).join(".") || "none";
    return index === layer ? list : `${manifest.layers[index].slug}~${list}`;
  });
  return parts.join(",");
}

function channelsFromText(manifest, text, selected) {
  let channels = {};
  for (const part of text.split(",")) {
    const [list, slug] = part.split("~").reverse();
    const layer = slug === undefined ? selected : manifest.layers.findIndex((candidate) => candidate.slug === slug);
    const chosen = list.split(".").map((k) => Number(k) - 1);
    const known = chosen.filter((k) => Number.isInteger(k) && k >= 0 && k < manifest.layers[layer]?.channels);
    if (known.length || (list === "none" && layer >= 0)) channels = withChannels(manifest, channels, layer, known);
  }
  return channels;
}
