// What a page of a recurrent agent's memory holds, and the chunks of the episode that is shown.
import { derived, readable } from "svelte/store";
import { createResource } from "../../data/resource.js";

/** Data of the sections, null where the page lacks one (docs/page-format.md). */
export function readMemory(manifest) {
  const dataOf = (kind) => manifest.sections.find((section) => section.kind === kind)?.data ?? null;
  return {
    states: dataOf("states"),
    stateMap: dataOf("state_map"),
    stretches: dataOf("stretches"),
    interventions: dataOf("interventions"),
    simulator: dataOf("simulator"),
  };
}

/** The names of the directions, in the order of the components. */
export const directionNames = ({ memory: { states } }) => (states?.directions ?? []).map(({ name }) => name);

/** Behaviours are counted from 1 for readers. */
export const behaviourName = (index) => `behaviour ${index + 1}`;

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

/** The arrays of a resource, or null while they are not there. */
export const arraysOf = (resource) => derived(resource, ({ chunk }) => chunk?.arrays ?? null);

/** The names of directions as a store: `label(k)` is what the page calls direction k. */
export function createNames(manifest) {
  const names = directionNames(manifest);
  const label = (k) => names[k] ?? `component ${k + 1}`;
  return { subscribe: readable({ given: {}, label }).subscribe, add() {} };
}
