// The names of features, as one store that every component asks.
import { writable } from "svelte/store";
import { cleanNames, mergedNames, naming, renamed } from "../../data/names.js";

/**
 * @param {object} manifest
 * @param selection holds the names that the reader gave: they can be undone, and are in the address
 * @param kept a store that the browser keeps; a link alone does not change it
 */
export function createNames(manifest, selection, kept) {
  let given = selection.now.names;
  let received = null; // with the names of another tab, which has stored them
  const store = writable(naming(manifest, given));
  selection.subscribe(({ names }) => {
    if (names === given) return;
    given = names;
    if (names !== received) kept.set(names);
    store.set(naming(manifest, names));
  });
  kept.received.subscribe((value) => {
    received = value && mergedNames(given, value);
    if (received) selection.change({ names: received });
  });
  return {
    subscribe: store.subscribe,
    /** Name a feature; an empty name removes the one it has. */
    set: (layer, channel, text) => selection.change({ names: renamed(manifest, given, layer, channel, text) }),
    /** Add the names in a value that may hold anything. */
    add: (value) => selection.change({ names: mergedNames(given, cleanNames(manifest, value)) }),
  };
}
