// The page of what a recurrent agent remembers: its episodes, the directions of its state, and what caused its outputs.
import { derived, get } from "svelte/store";
import { createFrames } from "../../data/frames.js";
import { cleanNames, mergedNames } from "../../data/names.js";
import { actionColors } from "../../kit/image/colors.js";
import { createKept, createSelection, keepPalette } from "../../kit/shell/page.js";
import { showTab } from "../../kit/shell/Tabs.svelte";
import { clockOf, createPlayer } from "../../kit/time/clock.js";
import * as codec from "./address.js";
import * as behaviours from "./Behaviours.svelte";
import * as chooser from "./Chooser.svelte";
import * as causes from "./Causes.svelte";
import * as components from "./Components.svelte";
import * as interventions from "./Interventions.svelte";
import * as map from "./Map.svelte";
import * as now from "./Now.svelte";
import * as play from "./Play.svelte";
import * as player from "./Player.svelte";
import * as remembering from "./Remembering.svelte";
import * as simulator from "./Simulator.svelte";
import { arraysOf, createNames, following, namedDirections } from "./data.js";
import { readMemory } from "./sections.js";
import { changed, choose, pathsOf, showStretch, TABS } from "./selection.js";
import { explanation, listed } from "./stretches.js";
import * as through_time from "./ThroughTime.svelte";
import * as trust from "./Trust.svelte";

export { filesOf } from "./export.js";

/** Panels of this page in place of others of the same name. */
export const panels = {
  ...{ chooser, play, player, through_time, map, now, trust },
  ...{ components, behaviours, causes, remembering, interventions, simulator },
};

/** Kinds of sections that this page's own panels draw. */
export const sections = ["trajectories", "states", "state_map", "stretches", "interventions", "simulator"];

/** Panels by slot; `tabs` are below the others, one at a time; `aside` opens at the side. */
export const layout = {
  navigation: ["chooser"],
  main: ["play", "player", "through_time"],
  legend: ["map", "now"],
  tabs: TABS,
  aside: ["notes", "trust", "export", "help"],
};

/** Widths of the slots `navigation` and `legend`. */
export const side = "clamp(220px, 18vw, 300px)";
export const beside = "clamp(280px, 25vw, 420px)";

export const labels = { navigation: "Stretches", legend: "State", tabs: "Analyses", skip: "Skip to the player" };

export const aliases = { memory: "remembering", state_map: "map", states: "components", stretches: "through_time" };

export function problemWith({ trajectories }) {
  return trajectories.length ? null : "This page has no episodes: its section “trajectories” is missing.";
}

export const keys = [
  { keys: [",", "."], action: "stretch", text: "previous or next stretch of the list", letter: true },
  { keys: ["[", "]"], action: "episode", text: "previous or next episode", letter: true },
  { keys: ["g"], action: "target", text: "target whose causes are shown", letter: true },
  {
    keys: ["p"],
    action: "path",
    text: "causes through memory, memory and the world, or their difference",
    letter: true,
  },
  { keys: ["1", "2", "3", "4", "5", "6"], show: "1 to 6", action: "tab", text: "tab below", letter: true },
];

/** Stops of the tour: panel, title, text. */
export const tour = [
  ["chooser", "What to look at", "Moments whose causes were computed. Click one to go there."],
  ["player", "Player", "What the agent saw, did and expected, and the components of its state over time."],
  ["through_time", "What caused it", "Which places of earlier frames an output depends on, and how far back."],
  ["map", "State map", "Every step is a point; similar states are near each other. The line is this episode's path."],
  ["now", "Components", "The state at this step, and the components that caused the output. Press ? for help."],
];

const EXPLANATIONS = [
  {
    title: "What gradients tell, and what they do not",
    text: "Maps and bars of causes are gradients times differences: from the recording's mean frame, or from the mean coordinate. They are first-order estimates: where the network saturates, they may miss causes; where it is steep, they exaggerate. Through the simulator, gradients pass sampled states and actions as if they had not been sampled, so they are estimates, and only as good as the simulator: look at its quality first.",
  },
];

/** @param {ReturnType<import("../../kit/shell/page.js").createShell>} shell */
export function create(shell, query) {
  const view = { ...shell.manifest.view, palette: get(shell.settings).palette };
  const colors = actionColors(shell.manifest.actions);
  const actions = shell.manifest.actions.map((action, i) => ({ ...action, color: colors[i] }));
  const memory = readMemory({ ...shell.manifest, actions });
  const manifest = { ...shell.manifest, actions, view, memory, named: namedDirections(memory) };
  const { trajectories } = manifest;
  const kept = createKept(`rl-clarity:${manifest.id}:names`, {}, (value) => cleanNames(manifest.named, value));
  const initial = codec.fromQuery(manifest, query);
  initial.names = mergedNames(get(kept), initial.names);
  const selection = createSelection(initial, (now, patch) => changed(manifest, now, patch));
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
  const stretches = memory.stretches?.stretches ?? [];
  const explained = following(shell.chunks, selection, ({ stretch }) => stretches[stretch]?.chunk);
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
    /** The resource of the stretch that is shown, and what it says of the target's causes; null where it does not. */
    explained,
    explanation: derived([selection, explained], ([{ stretch, target, path }, { chunk }]) =>
      chunk && stretches[stretch] ? explanation(chunk.arrays, stretches[stretch], target, path) : null,
    ),
    explanations: [...EXPLANATIONS, ...shell.manifest.explanations],
    names: createNames(manifest, selection, kept),
    /** A frame in words. */
    describe: ({ trajectory, frame }) => `episode ${trajectory + 1} · step ${frame + 1}`,
    hasPanel: (name) => name !== "find",
    facts: [manifest.env_name, manifest.agent.network],
  };
  page.turnStretch = (sign) => turnStretch(page, sign);
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

/** Go to the stretch after the one that is shown, or before it, among those that are listed. */
function turnStretch(page, sign) {
  const { memory, names, selection } = page;
  const all = listed(memory.stretches?.stretches ?? [], selection.now, get(names).label);
  const at = all.indexOf(selection.now.stretch);
  const next = at < 0 ? all.at(sign < 0 ? -1 : 0) : all[at + sign];
  if (next !== undefined) showStretch(page, next);
}

const turn = (list, now) => list[(list.indexOf(now) + 1) % list.length];

function actionsOf(page) {
  const { selection, manifest, memory } = page;
  const targets = (memory.stretches?.targets ?? []).map(({ id }) => id);
  return {
    stretch: (key) => page.turnStretch(key === "," ? -1 : 1),
    target: () => selection.change({ target: turn(targets, selection.now.target) }),
    path: () => selection.change({ path: turn(pathsOf(manifest), selection.now.path) }),
    episode: (key) => selection.change({ trajectory: selection.now.trajectory + (key === "[" ? -1 : 1), frame: 0 }),
    tab: (key) => showTab(page, TABS[Number(key) - 1]),
  };
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
export const scripting = (page) => ({
  /** Look at a direction, counted from 0; `more`: give it a track beside the others. */
  choose: (component, more = false) => choose(page, component, more),
  /** The paths of influence that the page has. */
  paths: () => pathsOf(page.manifest),
});
