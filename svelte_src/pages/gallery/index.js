// An index of pages; two pages of the same recording side by side, with one clock.
import { derived } from "svelte/store";
import { createSelection } from "../../kit/shell/page.js";
import { clockOf, createPlayer } from "../../kit/time/clock.js";
import * as codec from "./address.js";
import Gallery from "./Gallery.svelte";
import { changed } from "./selection.js";

/** Drawn instead of panels in a layout. */
export const component = Gallery;

/** @param {ReturnType<import("../../kit/shell/page.js").createShell>} shell */
export function create(shell, query) {
  const { manifest } = shell;
  const selection = createSelection(codec.fromQuery(manifest, query), (now, patch) => changed(manifest, now, patch));
  const time = ({ trajectory, frame }) => ({ episode: trajectory, frame, window: 0 });
  const clock = Object.assign(
    clockOf({
      subscribe: derived(selection, time).subscribe,
      read: () => time(selection.now),
      change: ({ episode: trajectory = selection.now.trajectory, frame }, kind) =>
        selection.change({ trajectory, frame }, kind),
    }),
    {
      /** Those of the page on the left. */
      steps: (episode = selection.now.trajectory) => manifest.pages[selection.now.left]?.steps[episode] ?? 1,
    },
  );
  return {
    ...shell,
    codec,
    selection,
    clock,
    player: createPlayer(clock),
    keys: [],
    actions: {},
    hasPanel: () => false,
  };
}
