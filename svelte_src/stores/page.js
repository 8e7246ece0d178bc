// Everything the components share, made once from the manifest and handed down as a Svelte context.
import { derived, get, readable, writable } from "svelte/store";
import { featureFromQuery } from "../lib/address.js";
import { createChunks } from "../lib/chunks.js";
import { channelColors } from "../lib/colors.js";
import { createFrames } from "../lib/frames.js";
import { mendNotes } from "../lib/notes.js";
import { createPictures } from "../lib/pictures.js";
import { DEFAULT_SETTINGS, mendSettings } from "../lib/settings.js";
import { createKept } from "./kept.js";
import { createPlayback } from "./playback.js";
import { createResource } from "./resource.js";
import { createSelection } from "./selection.js";

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
