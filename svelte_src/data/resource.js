// The state of a chunk that a component needs: {state: "absent" | "loading" | "ready" | "error", chunk, error}.
import { writable } from "svelte/store";

const ABSENT = { state: "absent", name: null, chunk: null, error: null };

export function createResource(chunks) {
  const store = writable(ABSENT);
  let wanted = null;

  function settle(name, value) {
    if (wanted === name) store.set({ state: "loading", name, chunk: null, error: null, ...value });
  }

  return {
    subscribe: store.subscribe,
    want(name) {
      if (name === wanted) return;
      wanted = name;
      if (!name) return void store.set(ABSENT);
      const chunk = chunks.peek(name);
      if (chunk) return settle(name, { state: "ready", chunk });
      settle(name, {});
      chunks.get(name).then(
        (loaded) => settle(name, { state: "ready", chunk: loaded }),
        (error) => settle(name, { state: "error", error: error.message }),
      );
    },
    /** Try again after a failure. */
    again() {
      const name = wanted;
      chunks.retry();
      wanted = null;
      this.want(name);
    },
  };
}
