// Names that a reader gives to features, as a plain value {layer's key: {number: name}}: the form of the Python option
// `feature_names`. They precede the names that the page came with; an empty name removes one of these.

import { channelWord } from "../kit/shell/format.js";

export const LONGEST_NAME = 60;
const CONTROL = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const JOINERS = "\u200c\u200d"; // Persian words and some emoji contain them

/** A name as it is kept: without control characters and outer spaces, not too long. */
export function cleanName(text) {
  const visible = String(text).replace(CONTROL, (character) => (JOINERS.includes(character) ? character : " "));
  return Array.from(visible.replace(/\s+/g, " ").trim()).slice(0, LONGEST_NAME).join("").trim();
}

/** The names of the page's features in a value that may hold anything. */
export function cleanNames(manifest, value) {
  const names = {};
  for (const { key, channels } of manifest.layers) {
    for (let number = 1; number <= channels; number += 1) {
      const name = value?.[key]?.[number];
      if (typeof name === "string") add(names, key, number, cleanName(name));
    }
  }
  return names;
}

/** Names with others added, which precede them. */
export function mergedNames(names, others) {
  const merged = {};
  for (const one of [names, others]) {
    for (const [layer, entries] of Object.entries(one)) {
      for (const [number, name] of Object.entries(entries)) add(merged, layer, number, name);
    }
  }
  return merged;
}

/** Names with a feature's replaced; what the page's own name says is left out. */
export function renamed(manifest, names, layerIndex, channel, text) {
  const layer = manifest.layers[layerIndex];
  const name = cleanName(text);
  const next = mergedNames(names, { [layer.key]: { [channel + 1]: name } });
  if (name === (layer.names?.[channel] ?? "")) {
    delete next[layer.key][channel + 1];
    if (!Object.keys(next[layer.key]).length) delete next[layer.key];
  }
  return next;
}

/** A feature's name; empty if it has none. */
function featureName({ layers }, names, layerIndex, channel) {
  const layer = layers[layerIndex];
  return names[layer.key]?.[channel + 1] ?? layer.names?.[channel] ?? "";
}

/** Names at one time; layers and channels are counted from 0. */
export const naming = (manifest, given) => ({
  /** what the reader gave, as the Python option `feature_names` takes it */
  given,
  count: Object.keys(given).length,
  /** a feature's name; empty if it has none */
  name: (layer, channel) => featureName(manifest, given, layer, channel),
  /** "coin (1)", or "feature 1"; "coin (ICA 1)" where features have labels of their own; "channel 1" at the input, "value" of a saliency method, "residual" for what the features leave out */
  label(layer, channel) {
    const { channels, kind, labels } = manifest.layers[layer];
    if (channel >= channels) return "residual";
    const name = featureName(manifest, given, layer, channel);
    if (name && kind === "saliency") return name;
    if (name) return `${name} (${labels?.[channel] ?? channel + 1})`;
    return labels?.[channel] ?? `${channelWord(manifest.layers[layer]).toLowerCase()} ${channel + 1}`;
  },
  /** the label at the beginning of a text: "coin (1)", or "Feature 1" */
  title(layer, channel) {
    const label = this.label(layer, channel);
    return this.name(layer, channel) ? label : label[0].toUpperCase() + label.slice(1);
  },
});

/** Names as parameters of an address: "2b~1~coin" each. */
export const namesToTexts = ({ layers }, names) =>
  layers.flatMap(({ key, slug }) =>
    Object.entries(names[key] ?? {}).map(([number, name]) => `${slug}~${number}~${name}`),
  );

/** The names of such parameters, of the page's features. */
export function namesFromTexts(manifest, texts) {
  const names = {};
  for (const text of texts) {
    const [, slug, number, name] = /^([^~]*)~(\d+)~(.*)$/.exec(text) ?? [];
    const layer = manifest.layers.find((candidate) => candidate.slug === slug);
    if (layer && Number(number) >= 1 && Number(number) <= layer.channels)
      add(names, layer.key, Number(number), cleanName(name));
  }
  return names;
}

const add = (names, layer, number, name) => ((names[layer] ??= {})[number] = name);
