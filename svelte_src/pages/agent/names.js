// The names of features, as one store that every component asks.
import { writable } from "svelte/store";
import { cleanNames, featureName, mergedNames, renamed } from "../../data/names.js";
import { channelWord } from "../../kit/shell/format.js";

/**
 * @param {object} manifest
 * @param selection holds the names that the reader gave: they can be undone, and are in the address
 * @param kept a store that the browser keeps; a link alone does not change it
 */
export function createNames(manifest, selection, kept) {
  let given = selection.now.names;
  const store = writable(naming(manifest, given));
  selection.subscribe(({ names }) => {
    if (names === given) return;
    given = names;
    kept.set(names);
    store.set(naming(manifest, names));
  });
  return {
    subscribe: store.subscribe,
    /** Name a feature; an empty name removes the one it has. */
    set: (layer, channel, text) => selection.change({ names: renamed(manifest, given, layer, channel, text) }),
    /** Add the names in a value that may hold anything. */
    add: (value) => selection.change({ names: mergedNames(given, cleanNames(manifest, value)) }),
  };
}

/** Names at one time; layers and channels are counted from 0. */
export const naming = (manifest, given) => ({
  /** what the reader gave, as the Python option `feature_names` takes it */
  given,
  count: Object.keys(given).length,
  /** a feature's name; empty if it has none */
  name: (layer, channel) => featureName(manifest, given, layer, channel),
  /** "coin (1)", or "Feature 1"; "Channel 1" at the input, "Rest" for what the features leave out */
  label(layer, channel) {
    if (channel >= manifest.layers[layer].channels) return "Rest";
    const name = featureName(manifest, given, layer, channel);
    return name ? `${name} (${channel + 1})` : `${channelWord(manifest.layers[layer])} ${channel + 1}`;
  },
});
