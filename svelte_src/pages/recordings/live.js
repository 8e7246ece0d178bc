// Keeps the page's table as the server has it.
import { writable } from "svelte/store";
import { readTable } from "./runs.js";

const EVERY_MS = 2000;

/**
 * @param {object | null} source the server; null: the table stays as it is
 * @param {(table: object) => void} adopt called with a table that has changed
 * @returns a store of why the server does not answer, or null; `stop` ends asking
 */
export function followSource(source, table, adopt) {
  const problem = writable(/** @type {string | null} */ (null));
  let timer = null;
  let stopped = false;

  async function ask() {
    timer = null;
    try {
      const manifest = await source.manifest();
      if (stopped) return;
      if (manifest) adopt(readTable(manifest, table));
      problem.set(null);
    } catch ({ message }) {
      problem.set(message);
    }
    wait();
  }

  function wait() {
    if (!stopped && document.visibilityState === "visible") timer = setTimeout(ask, EVERY_MS);
  }

  function appear() {
    if (document.visibilityState === "visible" && timer === null) ask();
  }

  if (source && table.live) {
    wait();
    document.addEventListener("visibilitychange", appear);
  }
  return {
    subscribe: problem.subscribe,
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", appear);
    },
  };
}
