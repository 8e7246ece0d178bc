// The chosen episodes: their numbers and maps, loaded when they are chosen, and again when they have grown.
import { writable } from "svelte/store";
import { joinMaps } from "../../data/saliency.js";
import { differing } from "./tracks.js";
import { addEntry, isOutdated, methodNamed } from "./runs.js";

/**
 * @typedef {object} Play
 * @property {"loading" | "ready" | "error"} state
 * @property {import("../../data/sections").TrajectoryEntry | null} trajectory its entry in the section `trajectories`
 * @property {Record<string, import("../../types").NumberArray> | null} series arrays
 * @property {{arrays: object} | null} maps by the selection's method, all segments as one chunk
 * @property {string | null} error for the reader
 */

const LOADING = { state: "loading", trajectory: null, series: null, maps: null, error: null };

/** Fetches the entries of a live page's episodes, each once at a time. @returns {(run, index) => Promise<object>} */
export function createEntries(source) {
  const pending = new Map();

  async function fetchEntry(run, index, entry) {
    try {
      addEntry(run, index, entry, await source.entry(entry));
    } finally {
      pending.delete(entry);
    }
  }

  return async (run, index) => {
    if (source && isOutdated(run, index)) {
      const { entry } = run.listed[index];
      if (!pending.has(entry)) pending.set(entry, fetchEntry(run, index, entry));
      await pending.get(entry);
    }
    const trajectory = run.manifest.trajectories[index];
    if (!trajectory?.series) throw new Error("This episode has no steps yet.");
    return trajectory;
  };
}

/**
 * @param {any} page with `entryOf` of `createEntries`, and `frameOf`, which loads the frame of a row that is shown
 * @returns a store of a Map from keys to Plays; `again` tries failures again, `refresh` what has changed in the table
 */
export function createPlays({ table, chunks, images, selection, entryOf, frameOf }) {
  const store = writable(new Map());
  const versions = new Map();
  let plays = new Map();

  function put(key, version, play) {
    if (versions.get(key) !== version) return;
    plays = new Map(plays).set(key, play);
    store.set(plays);
  }

  async function load(key, version, row, method) {
    try {
      if (row.error || row.of.error) throw new Error(row.error ?? row.of.error);
      const trajectory = await entryOf(row.of, row.trajectory);
      if (trajectory.frames.length) frameOf(row).catch(() => {}); // it is asked for with the numbers, not after them
      const grown = plays.get(key)?.trajectory;
      const names = methodNamed(row.of, method)?.maps[row.trajectory] ?? [];
      const compared = row.of.saliency?.differences?.[row.trajectory];
      const [{ arrays }, maps, differences] = await Promise.all([
        chunks.get(trajectory.series),
        Promise.all(names.map((name) => chunks.get(name))),
        compared && chunks.get(compared),
        // so that a filmstrip that has grown does not vanish for a moment
        grown && Promise.all(trajectory.scrub.slice(-1).map((name) => images.image(name).catch(() => {}))),
      ]);
      const series = differences ? { ...arrays, differs: differing(differences, trajectory.steps) } : arrays;
      put(key, version, { ...LOADING, state: "ready", trajectory, series, maps: joinMaps(maps) });
    } catch ({ message }) {
      put(key, version, { ...LOADING, ...plays.get(key), state: "error", error: message });
    }
  }

  /** What an episode is loaded anew for. */
  const versionOf = ({ of, trajectory, error, explained }, method) => {
    const listed = of.listed[trajectory] ?? {};
    return [of.id, listed.entry ?? listed.series, method, error ?? of.error, explained].join(" ");
  };

  function refresh() {
    const { chosen, method } = selection.now;
    for (const key of plays.keys()) if (!chosen.includes(key)) forget(key);
    for (const key of chosen) {
      const row = table.byKey.get(key);
      const version = row ? versionOf(row, method) : "removed";
      if (versions.get(key) === version) continue;
      versions.set(key, version);
      if (row) {
        if (!plays.get(key)?.series) put(key, version, LOADING);
        load(key, version, row, method);
      } else {
        put(key, version, { ...LOADING, ...plays.get(key), state: "error", error: "This episode was removed." });
      }
    }
  }

  function forget(key) {
    versions.delete(key);
    plays = new Map([...plays].filter(([other]) => other !== key));
    store.set(plays);
  }

  let shown = "";
  selection.subscribe(({ chosen, method }) => {
    const now = JSON.stringify([chosen, method]);
    if (now === shown) return;
    shown = now;
    refresh();
  });
  return {
    subscribe: store.subscribe,
    refresh,
    again() {
      chunks.retry();
      versions.clear();
      refresh();
    },
  };
}
