// What is drawn when: the page once the first episode's data are asked for, and most panels once it is shown.
import { readable } from "svelte/store";

/** Times after which all is drawn without the episode. */
const ASKED_MS = 100;
const SHOWN_MS = 1000;

const firstRow = ({ selection, table }) => table.byKey.get(selection.now.chosen[0]);

/** A promise of when the entry of the first chosen episode is there. @param {any} page with `entryOf` of `createEntries` */
export function whenAsked(page) {
  const row = firstRow(page);
  if (!row) return null;
  const entry = page.entryOf(row.of, row.trajectory).catch(() => {});
  return Promise.race([entry, new Promise((resolve) => setTimeout(resolve, ASKED_MS))]);
}

/**
 * A store that is true once the first chosen episode is drawn, or cannot be; it stays true.
 *
 * @param {any} page with `frameOf`, as for `createPlays`
 */
export const createShown = (page) =>
  readable(false, (set) => {
    const done = () => set(true);
    const timer = setTimeout(done, SHOWN_MS);
    const stop = page.plays.subscribe(async (plays) => {
      const row = firstRow(page);
      const { state, trajectory } = plays.get(row?.key) ?? {};
      if (row && (!state || state === "loading")) return;
      if (trajectory?.frames.length) await page.frameOf(row).catch(() => {});
      requestAnimationFrame(() => setTimeout(done));
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  });
