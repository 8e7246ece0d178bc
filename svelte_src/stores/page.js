// Everything the components share, made once from the manifest and handed down as a Svelte context.
import { derived, readable, writable } from "svelte/store";
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

export function createPage(manifest, query) {
  const chunks = createChunks({ missing: manifest.missing });
  const frames = createFrames(manifest, chunks);
  const settings = createKept(`rl-clarity:${manifest.id}:settings`, DEFAULT_SETTINGS, mendSettings);
  const selection = createSelection(manifest, query);
  const theme = createTheme(settings);
  const series = createResource(chunks);
  selection.subscribe(({ trajectory }) => series.want(manifest.trajectories[trajectory].series));
  const colors = derived(settings, ({ palette }) => manifest.layers.map((layer) => channelColors(layer, palette)));
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
    visible: writable(visibleSteps(manifest)),
    drawer: writable(featureFromQuery(manifest, query)),
    /** The feature that was looked at last. */
    feature: writable(null),
    marks: writable([]),
    notes: createKept(`rl-clarity:${manifest.id}:notes`, [], mendNotes),
    announcement: writable(""),
  };
}

function visibleSteps(manifest) {
  return Number(manifest.view?.scrubber_visible_duration) || 256;
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
