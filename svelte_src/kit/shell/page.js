// Everything the components share, made once from the manifest and handed down as a Svelte context.
import { derived, get, readable, writable } from "svelte/store";
import { createChunks } from "../../data/chunks.js";
import { createFrames } from "../../data/frames.js";
import { createPictures } from "../../data/images.js";
import { createResource } from "../../data/resource.js";
import { featureFromQuery, fromQuery } from "../../pages/agent/address.js";
import { changed, initialSelection } from "../../pages/agent/selection.js";
import { channelColors } from "../image/colors.js";
import { createPlayback } from "../time/clock.js";
import { createHistory, record, redo, undo } from "./history.js";
import { DEFAULT_SETTINGS, mendNotes, mendSettings } from "./kept.js";

export const PAGE = Symbol("page");

export function createPage(given, query) {
  const settings = createKept(`rl-clarity:${given.id}:settings`, DEFAULT_SETTINGS, mendSettings);
  const manifest = withPreferences(given, get(settings));
  const chunks = createChunks({ missing: manifest.missing });
  const frames = createFrames(manifest, chunks);
  const selection = createSelection(manifest, query);
  const theme = createTheme(settings);
  const series = createResource(chunks);
  selection.subscribe(({ trajectory }) => series.want(manifest.trajectories[trajectory].series));
  const palette = derived(selection, (now) => now.palette);
  const colors = derived(palette, (name) => manifest.layers.map((layer) => channelColors(layer, name)));
  keepPalette(palette, settings);
  return {
    manifest,
    chunks,
    frames,
    pictures: createPictures(undefined, undefined, manifest.missing),
    settings,
    selection,
    /** Numbers along the selected trajectory. */
    series,
    theme,
    colors,
    playback: createPlayback(manifest, selection),
    isolated: writable(null),
    hovered: writable(null),
    drawer: writable(featureFromQuery(manifest, query)),
    /** The feature that was looked at last. */
    feature: writable(null),
    marks: writable([]),
    notes: createKept(`rl-clarity:${manifest.id}:notes`, [], mendNotes),
    announcement: writable(""),
  };
}

/** The manifest with what the reader chose on an earlier visit, where an address does not say otherwise. */
const withPreferences = (manifest, { palette }) => ({ ...manifest, view: { ...manifest.view, palette } });

/** Keep the palette for later visits once the reader has changed it: a link alone changes nobody's settings. */
function keepPalette(palette, settings) {
  let before = get(palette);
  palette.subscribe((name) => {
    if (name !== before) settings.update((now) => ({ ...now, palette: name }));
    before = name;
  });
}

/** "light" or "dark", following the system where the reader has not chosen; paper is light. */
function createTheme(settings) {
  const all = [settings, createMatch("(prefers-color-scheme: dark)"), createMatch("print")];
  return derived(all, ([{ theme }, dark, printing]) => {
    if (printing) return "light";
    if (theme === "system") return dark ? "dark" : "light";
    return theme;
  });
}

/** Whether a media query matches. */
function createMatch(text) {
  const query = globalThis.matchMedia?.(text);
  return readable(query?.matches ?? false, (set) => {
    const listen = (event) => set(event.matches);
    query?.addEventListener("change", listen);
    return () => query?.removeEventListener("change", listen);
  });
}

// A store that the browser keeps. All pages opened from files share one storage, so keys hold the page's id.

/**
 * @template T
 * @param {string} key
 * @param {T} initial
 * @param {(value: any) => T} mend what was kept, or anything else that stood there, as a value that can be shown
 * @returns a store; its `lost` is a store that holds true while the browser does not keep the value
 */
export function createKept(key, initial, mend) {
  const nothing = JSON.stringify(initial); // Svelte changes the value itself, so what it began as is kept as text
  const store = writable(read(key, initial, mend));
  const lost = writable(false);
  store.subscribe((value) => lost.set(!write(key, JSON.stringify(value), nothing)));
  return { ...store, lost: { subscribe: lost.subscribe } };
}

function read(key, initial, mend) {
  try {
    const text = localStorage.getItem(key);
    if (text !== null) return mend(JSON.parse(text));
  } catch {
    // storage may be forbidden, or hold something else
  }
  return structuredClone(initial);
}

/** Whether the browser keeps the text, or has nothing to keep. */
function write(key, text, nothing) {
  try {
    if (text === nothing) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
    return true;
  } catch {
    return text === nothing; // forbidden or full: the page works without
  }
}

// The one selection, with undo and redo.

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
