// Chunks of the episode that is shown, and names of directions and behaviours.
import { derived } from "svelte/store";
import { endText } from "../../data/episodes.js";
import { createResource } from "../../data/resource.js";

/** Behaviors are counted from 1 for readers. */
export const behaviourName = (index) => `behavior ${index + 1}`;

/** What ended the episode that a trajectory is, where that is recorded. */
export const endOf = ({ episodes }) => endText(episodes?.at(-1) ?? {});

/**
 * A resource that follows the selection; `again` tries a failed chunk again.
 *
 * @param {(selection: object) => string | null | undefined} nameOf the chunk that a selection needs
 */
export function following(chunks, selection, nameOf) {
  const resource = createResource(chunks);
  selection.subscribe((now) => resource.want(nameOf(now)));
  return resource;
}

/**
 * The arrays of a resource, or null while they are not there.
 *
 * @param {import("svelte/store").Readable<import("../../data/resource.js").Resource>} resource
 */
export const arraysOf = (resource) => derived(resource, ({ chunk }) => chunk?.arrays ?? null);

/** The directions as a layer of data/names.js, whose features have names of their own. */
export function namedDirections({ states }) {
  const labels = (states?.directions ?? []).map(({ name }) => name);
  return { layers: [{ key: "components", slug: "component", kind: "directions", channels: labels.length, labels }] };
}

/** Names of directions as a store: `name(k)` is what the reader calls direction k, and `label(k)` what the page does. */
export function directionNaming(names) {
  const ofDirections = (now) => ({
    given: now.given,
    count: now.count,
    name: (k) => now.name(0, k),
    label: (k) => now.label(0, k),
  });
  return {
    subscribe: derived(names, ofDirections).subscribe,
    set: (k, text) => names.set(0, k, text),
    add: names.add,
  };
}
