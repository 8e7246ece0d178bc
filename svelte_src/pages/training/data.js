// The numbers and maps of every checkpoint's episode, loaded one checkpoint after another, the chosen ones first.
import { writable } from "svelte/store";
import { joinMaps } from "../../data/saliency.js";
import { methodNamed } from "./checkpoints.js";

/**
 * @typedef {object} Play
 * @property {"loading" | "ready" | "absent" | "error"} state
 * @property {object | null} series arrays of its episode (docs/page-format.md)
 * @property {{arrays: object} | null} maps by the selection's method, all segments as one chunk
 * @property {string | null} error for the reader
 */

const LOADING = { state: "loading", series: null, maps: null, error: null };

/** @returns a store of a Play for each checkpoint, in the episode that is selected, also `now`; `again` tries failures again */
export function createPlays({ checkpoints }, chunks, selection) {
  const store = writable(checkpoints.map(() => LOADING));
  let wanted = null;
  let current = null;

  let now = checkpoints.map(() => LOADING);
  store.subscribe((plays) => (now = plays));
  const put = (index, play) => store.update((plays) => Object.assign([...plays], { [index]: play }));

  async function load(checkpoint, { episode, method }) {
    const trajectory = checkpoint.manifest.trajectories[episode];
    if (!trajectory) return { ...LOADING, state: "absent" };
    const names = methodNamed(checkpoint, method)?.maps[episode] ?? [];
    try {
      const { arrays: series } = await chunks.get(trajectory.series);
      const [maps, error] = await loadMaps(names).then(
        (all) => [all, null],
        (problem) => [null, problem.message],
      );
      return { state: error ? "error" : "ready", series, maps, error };
    } catch ({ message }) {
      return { ...LOADING, state: "error", error: message };
    }
  }

  async function loadMaps(names) {
    return joinMaps(await Promise.all(names.map((name) => chunks.get(name))));
  }

  async function start(chosen) {
    const run = {};
    current = run;
    store.set(checkpoints.map(() => LOADING));
    for (const index of new Set([...chosen, ...checkpoints.keys()])) {
      const play = await load(checkpoints[index], wanted);
      if (current !== run) return;
      put(index, play);
    }
  }

  selection.subscribe(({ episode, method, chosen }) => {
    if (wanted?.episode === episode && wanted.method === method) return;
    wanted = { episode, method };
    start(chosen);
  });
  return {
    subscribe: store.subscribe,
    get now() {
      return now;
    },
    again() {
      chunks.retry();
      start(selection.now.chosen);
    },
  };
}

/** What every checkpoint thinks of the reference episode: a store of {shown: [chunk or null], divergence, state, error}. */
export function createShown({ reference }, chunks) {
  /** @type {any[]} */
  const none = [];
  const store = writable({ state: reference ? "loading" : "absent", shown: none, divergence: null, error: null });

  async function load() {
    const chunkOf = async (name) => (name ? chunks.get(name) : null);
    try {
      const all = await Promise.all([...reference.shown, reference.divergence].map(chunkOf));
      const divergence = all.pop()?.arrays.jensen_shannon?.data ?? null;
      store.set({ state: "ready", shown: all, divergence, error: null });
    } catch ({ message }) {
      store.update((now) => ({ ...now, state: "error", error: message }));
    }
  }

  if (reference) load();
  return {
    subscribe: store.subscribe,
    again() {
      chunks.retry();
      load();
    },
  };
}
