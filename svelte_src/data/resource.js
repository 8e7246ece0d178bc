// The state of what a component needs.
import { writable } from "svelte/store";

/**
 * @typedef {import("../types").Chunk} Chunk
 * @typedef {{state: "absent" | "loading" | "ready" | "error", chunk: Chunk | null, chunks: Chunk[], error: string | null}} Resource
 */

/** @type {Resource} */
const ABSENT = { state: "absent", chunk: null, chunks: [], error: null };

/** @param {ReturnType<import("./chunks.js").createChunks>} chunks */
export function createResource(chunks) {
  const store = writable(ABSENT);
  /** @type {string[]} */
  let wanted = [];

  function settle(names, value) {
    if (wanted === names) store.set({ ...ABSENT, ...value });
  }

  /** @returns {Partial<Resource>} */
  const ready = (loaded) => ({ state: "ready", chunk: loaded[0], chunks: loaded });

  return {
    subscribe: store.subscribe,
    /** @param {string | string[] | null | undefined} name of a chunk, or those of several that are needed together */
    want(name) {
      const names = [name ?? []].flat();
      if (String(names) === String(wanted)) return;
      wanted = names;
      if (!names.length) return void store.set(ABSENT);
      const held = names.map((one) => chunks.peek(one));
      if (held.every(Boolean)) return settle(names, ready(held));
      settle(names, { state: "loading" });
      Promise.all(names.map((one) => chunks.get(one))).then(
        (loaded) => settle(names, ready(loaded)),
        (error) => settle(names, { state: "error", error: error.message }),
      );
    },
    /** Try again after a failure. */
    again() {
      const names = wanted;
      chunks.retry();
      wanted = [];
      this.want(names);
    },
  };
}
