// The channels of each layer that images show, and single ones: shown alone, or open.
import { hasFeatures } from "../../data/manifest.js";

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
    const residual = alone.channel === layer.channels;
    return { chosen: residual ? [] : [alone.channel], residual };
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

/** The field of the channels that are shown: "1.3,4a~2" are 1 and 3 of the selected layer, and 2 of layer 4a; "none" is a choice. */
export const CHANNELS = {
  initial: () => ({}),
  format(channels, { manifest, selection: { layer } }) {
    const indices = Object.keys(channels).map(Number);
    const ordered = [...indices.filter((index) => index === layer), ...indices.filter((index) => index !== layer)];
    const parts = ordered.map((index) => {
      const list = channels[index].map((k) => k + 1).join(".") || "none";
      return index === layer ? list : `${manifest.layers[index].slug}~${list}`;
    });
    return parts.join(",");
  },
  parse(text, { manifest, selection }) {
    let channels = {};
    for (const part of text.split(",")) {
      const [list, slug] = part.split("~").reverse();
      const layer =
        slug === undefined ? selection.layer : manifest.layers.findIndex((candidate) => candidate.slug === slug);
      const chosen = list.split(".").map((k) => Number(k) - 1);
      const known = chosen.filter((k) => Number.isInteger(k) && k >= 0 && k < manifest.layers[layer]?.channels);
      if (known.length || (list === "none" && layer >= 0)) channels = withChannels(manifest, channels, layer, known);
    }
    return channels;
  },
};

/** The field of the channel that is shown alone. */
export const SOLO = {
  initial: null,
  format: (place, { manifest }) => place && placeToText(manifest, place),
  parse: (text, { manifest }) => placeFromText(manifest, text),
};

/** The field of the feature that is open: "3" of the selected layer, or "4a~3". */
export const FEATURE = {
  initial: null,
  clamp: (feature, { manifest, before }) => knownFeature(manifest, before, feature),
  format(feature, { manifest, selection: { layer } }) {
    if (!feature) return null;
    return feature.layer === layer ? feature.channel + 1 : placeToText(manifest, feature);
  },
  parse: (text, { manifest, selection: { layer } }) =>
    /^\d+$/.test(text) ? { layer, channel: Number(text) - 1 } : placeFromText(manifest, text),
};

/** A feature that the page has, the same value as before if it is the same one; else null. */
function knownFeature({ layers }, before, feature) {
  if (!feature) return null;
  const { layer, channel } = feature;
  if (isPlace(before, layer, channel)) return before;
  return layers[layer]?.features && channel >= 0 && channel < layers[layer].channels ? { layer, channel } : null;
}

/** "2b~3": the third channel of layer 2b; "2b~residual": its residual. */
function placeToText({ layers }, { layer, channel }) {
  return `${layers[layer].slug}~${channel < layers[layer].channels ? channel + 1 : "residual"}`;
}

function placeFromText({ layers }, text) {
  const [slug, name] = text.split("~");
  const layer = layers.findIndex((candidate) => candidate.slug === slug);
  if (layer < 0) return null;
  const { channels, kind } = layers[layer];
  if (["residual", "rest"].includes(name)) return hasFeatures({ kind }) ? { layer, channel: channels } : null;
  const channel = Number(name) - 1;
  return Number.isInteger(channel) && channel >= 0 && channel < channels ? { layer, channel } : null;
}
