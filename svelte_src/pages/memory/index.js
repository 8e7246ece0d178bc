// The page of what a recurrent agent remembers: its episodes, the directions of its state, and what caused its outputs.
import { derived, get } from "svelte/store";
import { createFrames } from "../../data/frames.js";
import { actionColors } from "../../kit/image/colors.js";
import { definePage } from "../../kit/page/page.js";
import { showTab } from "../../kit/shell/Tabs.svelte";
import { arraysOf, directionNaming, following, namedDirections } from "./data.js";
import { choose } from "./directions.js";
import { FIELDS, notes, TABS } from "./fields.js";
import * as panels from "./panels.js";
import { readMemory } from "./sections.js";
import { explanation, listed, pathsOf, showWindow } from "./windows.js";
import { createWindows } from "./window_store.js";
import { filesOf } from "./export.js";

const EXPLANATIONS = [
  {
    title: "What gradients tell, and what they do not",
    text: "Maps and bars of causes are integrated gradients: averaged gradients, multiplied by the difference from the frames of another episode or from the mean coordinate. They add up to the effect of all frames together. An effect that two frames have only together is divided between the two, so the estimate for one frame can differ from the effect of this frame alone. That effect is measured for the strongest causes. In the simulator, states and actions are sampled; gradients pass through each sample as if it were the vector of probabilities (straight-through). These gradients are therefore estimates, and only as good as the simulator, so look at its quality first.",
  },
];

/** Data of the sections, and actions in their colors. */
function read(manifest) {
  const colors = actionColors(manifest.actions);
  const actions = manifest.actions.map((action, i) => ({ ...action, color: colors[i] }));
  const memory = readMemory({ ...manifest, actions });
  return { actions, memory, named: namedDirections(memory) };
}

export const memory = definePage({
  fields: FIELDS,
  notes,
  time: { episode: "trajectory", frame: "frame", window: "visible" },
  steps: ({ trajectories }, _, episode) => trajectories[episode]?.steps,
  read,
  panels,
  sections: ["trajectories", "memory_matrix", "states", "state_map", "windows", "interventions", "simulator"],
  layout: {
    navigation: ["chooser"],
    main: ["memory_matrix", "play", "player", "through_time"],
    legend: ["map", "now"],
    tabs: TABS,
    aside: ["notes", "trust", "export", "help"],
  },
  side: "clamp(220px, 18vw, 300px)",
  legendSize: "clamp(280px, 25vw, 420px)",
  labels: { navigation: "Windows", legend: "State", tabs: "Analyses", skip: "Skip to the player" },
  aliases: { memory: "remembering", state_map: "map", states: "components", windows: "through_time" },
  keys: [
    { keys: [",", "."], action: "window", text: "previous or next window of the list" },
    { keys: ["[", "]"], field: "trajectory", and: { frame: 0 }, text: "previous or next episode" },
    { keys: ["g"], field: "target", text: "next target whose causes are shown" },
    {
      keys: ["p"],
      field: "path",
      text: "effects through memory alone, through memory and the world, or the difference between the two",
    },
    { keys: ["1", "2", "3", "4", "5", "6"], show: "1 to 6", action: "tab", text: "tab below" },
  ],
  tour: [
    ["memory_matrix", "Does the past matter?", "Which decisions depend on earlier steps, and how far back. Click one."],
    ["chooser", "What to look at", "Moments whose causes were computed. Click one to go there."],
    ["player", "Player", "What the agent saw, did and expected, and the components of its state over time."],
    ["through_time", "What caused it", "Which areas of earlier frames an output depends on, and how far back."],
    ["map", "State map", "Every step is a point; similar states are near each other. The line is this episode's path."],
    ["now", "Components", "The state at this step, and the components that caused the output. Press ? for help."],
  ],
  explanations: EXPLANATIONS,
  problemWith: ({ trajectories }) => (trajectories.length ? null : "This page has no episodes."),
  facts: ({ env_name: name, agent }) => [name, agent.network],
  filesOf,
  extend,
  scripting,
});

/** @param {import("../../types").Page} page */
function extend(page) {
  const { manifest, chunks, selection } = page;
  const { memory, trajectories } = manifest;
  const series = following(chunks, selection, ({ trajectory }) => trajectories[trajectory].series);
  const coordinates = following(chunks, selection, ({ trajectory }) => memory.states?.coordinates[trajectory] ?? null);
  const exchanged = Object.fromEntries((memory.matrix?.episodes ?? []).map((one) => [one.trajectory, one.chunk]));
  const dependence = following(chunks, selection, ({ trajectory }) => exchanged[trajectory] ?? null);
  const windows = createWindows(page);
  const windowAt = (index) => memory.windows?.windows[index];
  const explained = following(chunks, selection, ({ window }) => windowAt(window)?.chunk);
  Object.assign(page, {
    memory,
    frames: createFrames(manifest, chunks),
    /** Resources of the episode that is shown, and their arrays: numbers of its steps, and coordinates. */
    series,
    coordinates,
    seriesArrays: arraysOf(series),
    coordinateArrays: arraysOf(coordinates),
    /** The resource of the episode's memory matrix, and its arrays. */
    dependence,
    dependenceArrays: arraysOf(dependence),
    windows,
    /** The resource of the window that is shown, and what it says of the target's causes; null where it does not. */
    explained,
    explanation: derived([selection, explained], ([{ window, target, path }, { chunk }]) =>
      chunk && windowAt(window) ? explanation(chunk.arrays, windowAt(window), target, path) : null,
    ),
    names: directionNaming(page.names),
    /** A frame in words. */
    describe: ({ trajectory, frame }) => `episode ${trajectory + 1} · step ${frame + 1}`,
    hasPanel: (name) => name !== "find",
    turnWindow: (sign) => turnWindow(page, sign),
    actions: {
      window: (key) => page.turnWindow(key === "," ? -1 : 1),
      tab: (key) => showTab(page, TABS[Number(key) - 1]),
    },
  });
}

/** Go to the window after the one that is shown, or before it, among those that are listed. */
function turnWindow(page, sign) {
  const { memory, names, selection } = page;
  const all = listed(memory.windows?.windows ?? [], selection.now, get(names).label);
  const at = all.indexOf(selection.now.window);
  const next = at < 0 ? all.at(sign < 0 ? -1 : 0) : all[at + sign];
  if (next !== undefined) showWindow(page, next);
}

/** What `window.rlClarity` offers on this page, beside what every page has. */
function scripting(page) {
  return {
    /** Look at a direction, counted from 0; `more`: give it a track beside the others. */
    choose: (component, more = false) => choose(page, component, more),
    /** The paths of influence that the page has. */
    paths: () => pathsOf(page.manifest),
  };
}
