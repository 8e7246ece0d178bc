// What pages of every kind share: data, settings, theme, drawer, notes, brush. A kind of page adds its own selection and clocks.
import { derived, get, readable, writable } from "svelte/store";
import { createChunks } from "../../data/chunks.js";
import { createImages } from "../../data/images.js";
import { EMPTY } from "../time/brush.js";
import { createHistory, record, redo, undo } from "./history.js";
import { cleanNotes, cleanSettings, DEFAULT_SETTINGS } from "./kept.js";

export const PAGE = Symbol("page");

/**
 * @param {any} manifest as `readManifest` returns it
 * @param {ReturnType<import("../../data/source.js").createSource> | null} [source] the server of the page's data
 */
export function createShell(manifest, source = null) {
  const folder = source?.folder ?? "";
  const settings = createKept(`rl-clarity:${manifest.id}:settings`, DEFAULT_SETTINGS, cleanSettings);
  const failedImages = writable(/** @type {string[]} */ ([]));
  return {
    manifest,
    source,
    settings,
    chunks: createChunks({ missing: manifest.missing, folder }),
    images: createImages({
      missing: manifest.missing,
      folder,
      onFailed: (name) => failedImages.update((names) => (names.includes(name) ? names : [...names, name])),
    }),
    /** Names of images that are missing or damaged. */
    failedImages,
    theme: createTheme(settings, source),
    /** The panel that is open at the side: {name, ...what it shows}, or null. */
    drawer: writable(/** @type {{name: string, [shown: string]: any} | null} */ (null)),
    /** A function for each track in view that describes it, as Track.svelte does. */
    tracks: new Set(),
    /** The steps that are marked on all tracks. */
    brush: writable(EMPTY),
    /** What the page has in common with one beside it, as `kit/shell/embedding.js` reads it; null where there is none. */
    partner: createPartner(),
    notes: createKept(`rl-clarity:${manifest.id}:notes`, [], cleanNotes),
    announcement: writable(""),
    /** Functions that draw sections, by kind, from `rlClarity.panel`. */
    customPanels: writable({}),
  };
}

/** A store whose value is also in `now`. */
function createPartner() {
  const store = writable(/** @type {import("./embedding.js").Beside | null} */ (null));
  const partner = { ...store, now: get(store) };
  store.subscribe((value) => (partner.now = value));
  return partner;
}

/** The selection of a page, with undo and redo. `changed(selection, patch)` returns the next one, everything in range. */
export function createSelection(initial, changed) {
  let history = createHistory(initial);
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
      const present = changed(history.present, patch);
      if (Object.keys(patch).every((key) => history.present[key] === present[key])) return;
      adopt(record(history, present, kind, performance.now()));
    },
    undo: () => adopt(undo(history)),
    redo: () => adopt(redo(history)),
  };
}

/**
 * "light" or "dark", following TensorBoard or the system where the reader has not chosen; paper is light.
 *
 * @param {import("svelte/store").Readable<typeof DEFAULT_SETTINGS>} settings
 * @param {object | null} source
 */
function createTheme(settings, source) {
  const [dark, print] = ["(prefers-color-scheme: dark)", "print"].map(createMatch);
  return derived([settings, dark, print, createHostTheme(source)], ([{ theme }, isDark, printing, host]) => {
    if (printing) return "light";
    if (theme === "system") return host ?? (isDark ? "dark" : "light");
    return theme;
  });
}

/** The theme of TensorBoard around a server's page; null where there is none. */
function createHostTheme(source) {
  const body = source && hostBody();
  const read = () => (body.classList.contains("dark-mode") ? "dark" : "light");
  return readable(body && read(), (set) => {
    if (!body) return () => {};
    const observer = new globalThis.MutationObserver(() => set(read()));
    observer.observe(body, { attributeFilter: ["class"] });
    return () => observer.disconnect();
  });
}

/** The body of the window around the page; null where there is none, or none that the page may see. */
function hostBody() {
  try {
    return window.parent === window ? null : window.parent.document.body;
  } catch {
    return null;
  }
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

/**
 * A store that the browser keeps, and that follows other tabs of the page. All pages opened from files share one
 * storage, so keys contain the page's id.
 *
 * @template T
 * @param {string} key
 * @param {T} initial
 * @param {(value: any) => T} clean turns whatever was stored into a value that can be shown
 * @returns a store; its `lost` is a store that is true while the browser does not keep the value, and its `received`
 * holds the last value from another tab, or null
 */
export function createKept(key, initial, clean) {
  const nothing = JSON.stringify(initial); // as text, since Svelte changes the value itself
  const store = writable(read(key, initial, clean));
  const lost = writable(false);
  const received = writable(/** @type {T | null} */ (null));
  let writes = false; // only changes are written: a page that could not read what is stored leaves it as it is
  store.subscribe((value) => writes && lost.set(!write(key, JSON.stringify(value), nothing)));
  writes = true;
  globalThis.addEventListener?.("storage", (event) => {
    if (event.key !== key || event.newValue === null) return;
    writes = false;
    const value = read(key, initial, clean);
    store.set(value);
    received.set(value);
    writes = true;
  });
  // Svelte changes an entry in place and sets the same object: a copy is seen by components that compare identities.
  const set = (value) => store.set(Array.isArray(value) ? [...value] : { ...value });
  return { ...store, set, lost: { subscribe: lost.subscribe }, received: { subscribe: received.subscribe } };
}

function read(key, initial, clean) {
  try {
    const text = localStorage.getItem(key);
    if (text !== null) return clean(JSON.parse(text));
  } catch {
    // storage may be forbidden, or hold something else
  }
  return structuredClone(initial);
}

/** Whether the browser keeps the text, or has nothing to keep. */
function write(key, text, nothing) {
  try {
    localStorage.setItem(key, text);
    return true;
  } catch {
    return text === nothing; // forbidden or full: the page works without
  }
}
