// The one selection, with undo and redo.
import { writable } from "svelte/store";
import { fromQuery } from "../lib/address.js";
import { createHistory, record, redo, undo } from "../lib/history.js";
import { changed, initialSelection } from "../lib/selection.js";

export function createSelection(manifest, query = "") {
  let history = createHistory(query ? fromQuery(manifest, query) : initialSelection(manifest));
  const store = writable(history.present);
  const state = writable({ canUndo: false, canRedo: false });

  function adopt(next) {
    if (next === history) return;
    history = next;
    store.set(history.present);
    const now = { canUndo: history.past.length > 0, canRedo: history.future.length > 0 };
    state.update((old) => (old.canUndo === now.canUndo && old.canRedo === now.canRedo ? old : now));
  }

  return {
    subscribe: store.subscribe,
    /** Whether there is something to undo or redo. */
    history: { subscribe: state.subscribe },
    get now() {
      return history.present;
    },
    /** Make a change; changes of one kind in quick succession are undone together. */
    change(patch, kind = null) {
      const present = changed(manifest, history.present, patch);
      if (sameFrame(history.present, present, patch)) return;
      adopt(record(history, present, kind, performance.now()));
    },
    toFrame(frame, kind = "frame") {
      this.change({ frame }, kind);
    },
    /** Show more or less time on the timeline; steps in quick succession are undone together. */
    zoom(factor) {
      this.change({ visible: history.present.visible * factor }, "visible");
    },
    undo: () => adopt(undo(history)),
    redo: () => adopt(redo(history)),
  };
}

const sameFrame = (before, after, patch) => Object.keys(patch).every((key) => before[key] === after[key]);
