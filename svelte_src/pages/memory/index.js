// The page of what a recurrent agent remembers: its episodes, the directions of its state, and what caused its outputs.
import { derived, get } from "svelte/store";
import { createFrames } from "../../data/frames.js";
import { createSelection, keepPalette } from "../../kit/shell/page.js";
import { clockOf, createPlayer } from "../../kit/time/clock.js";
import * as codec from "./address.js";
import * as behaviours from "./Behaviours.svelte";
import * as causes from "./Causes.svelte";
import * as components from "./Components.svelte";
import * as interventions from "./Interventions.svelte";
import * as player from "./Player.svelte";
import * as remembering from "./Remembering.svelte";
import * as simulator from "./Simulator.svelte";
import { arraysOf, createNames, following, readMemory } from "./data.js";
import { changed, choose, pathsOf, TABS } from "./selection.js";
import * as trust from "./Trust.svelte";

/** Panels of this page in place of others of the same name. */
export const panels = { player, components, behaviours, causes, remembering, interventions, simulator, trust };

/** Kinds of sections that this page's own panels draw. */
export const sections = ["trajectories", "states", "state_map", "stretches", "interventions", "simulator"];

/** Panels by slot; `tabs` are below the others, one at a time; `aside` opens at the side. */
export const layout = {
  navigation: [],
  main: ["player"],
  legend: [],
  tabs: TABS,
  aside: ["notes", "trust", "help"],
};

export const labels = { navigation: "Stretches", tabs: "Analyses", skip: "Skip to the player" };

export const aliases = { memory: "remembering", state_map: "map", states: "components" };

export function problemWith({ trajectories }) {
  return trajectories.length ? null : "This page has no episodes: its section “trajectories” is missing.";
}

export const keys = [
  { keys: ["[", "]"], action: "episode", text: "previous or next episode", letter: true },
  { keys: ["1", "2", "3", "4", "5", "6"], show: "1 to 6", action: "tab", text: "tab below", letter: true },
];

/** Stops of the tour: panel, title, text. */
export const tour = [["player", "Player", "The episode's frames and numbers. Click a track to go there."]];

const EXPLANATIONS = [];

/** @param {ReturnType<import("../../kit/shell/page.js").createShell>} shell */
export function create(shell, query) {
  const view = { ...shell.manifest.view, palette: get(shell.settings).palette };
  const manifest = { ...shell.manifest, view, memory: readMemory(shell.manifest) };
  const { trajectories, memory } = manifest;
  const selection = createSelection(codec.fromQuery(manifest, query), (now, patch) => changed(manifest, now, patch));
  keepPalette(selection, shell.settings);
  const clock = clockOver(
    selection,
    trajectories.map(({ steps }) => steps),
  );
  const series = following(shell.chunks, selection, ({ trajectory }) => trajectories[trajectory].series);
  const coordinates = following(
    shell.chunks,
    selection,
    ({ trajectory }) => memory.states?.coordinates[trajectory] ?? null,
  );
  const page = {
    ...shell,
    manifest,
    /** Data of the sections. */
    memory,
    codec,
    selection,
    clock,
    player: createPlayer(clock, Number(manifest.view?.video_speed) || 12),
    frames: createFrames(manifest, shell.chunks),
    /** Resources of the episode that is shown, and their arrays: numbers of its steps, and coordinates. */
    series,
    coordinates,
    seriesArrays: arraysOf(series),
    coordinateArrays: arraysOf(coordinates),
    explanations: [...EXPLANATIONS, ...shell.manifest.explanations],
    names: createNames(manifest),
    /** A frame in words. */
    describe: ({ trajectory, frame }) => `episode ${trajectory + 1} · step ${frame + 1}`,
    hasPanel: (name) => !["find", "export"].includes(name),
    facts: [manifest.env_name, manifest.agent.network],
  };
  page.actions = actionsOf(page);
  return page;
}

function clockOver(selection, lengths) {
  const timeOf = ({ trajectory, frame, visible }) => ({
    episode: trajectory,
    frame,
    window: visible ?? lengths[trajectory],
  });
  const patchOf = ({ episode, frame, window }) => ({
    ...(episode !== undefined && { trajectory: episode }),
    ...(frame !== undefined && { frame }),
    ...(window !== undefined && { visible: window }),
  });
  return clockOf({
    lengths,
    subscribe: derived(selection, timeOf).subscribe,
    read: () => timeOf(selection.now),
    change: (patch, kind) => selection.change(patchOf(patch), kind),
  });
}

function actionsOf({ selection }) {
  return {
    episode: (key) => selection.change({ trajectory: selection.now.trajectory + (key === "[" ? -1 : 1), frame: 0 }),
    tab: (key) => selection.change({ tab: TABS[Number(key) - 1] }),
  };
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
export const scripting = (page) => ({
  /** Look at a direction, counted from 0; `more`: give it a track beside the others. */
  choose: (component, more = false) => choose(page, component, more),
  /** The paths of influence that the page has. */
  paths: () => pathsOf(page.manifest),
});
