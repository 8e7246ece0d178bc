// The selection: one value that every panel shows and the address holds.
import { holds, stretchAt } from "./stretches.js";

/**
 * @typedef {object} Selection
 * @property {number} trajectory the episode that is shown
 * @property {number} frame
 * @property {number} stretch index of the stretch that is shown, or -1: it stays while its window holds the frame
 * @property {"all" | "episode" | "behaviour" | "direction"} choice which stretches the chooser lists
 * @property {"any" | "top" | "middle" | "bottom"} end of the direction, for that choice
 * @property {"any" | "now"} when "now": only stretches that hold the step that is shown
 * @property {string} search text that a stretch's description must contain
 * @property {number[]} components directions that are chosen: the first one is looked at, all have a track
 * @property {number} behaviour that is looked at
 * @property {string} target whose causes are shown: "value", "action", "direction-3"
 * @property {"memory" | "whole" | "world"} path that causes take: "world" is what the whole adds to memory alone
 * @property {"path" | "paths" | "frame"} scale what has full opacity: the largest value of the stretch, on this path or on
 *   any, or of each of its frames
 * @property {number} opacity of maps over frames
 * @property {"standard" | "safe"} palette of outputs; "safe": for color-blind readers
 * @property {string} band which labels of steps have a track: "behaviour" or "cluster"
 * @property {string} tab the panel that is open below
 * @property {number | null} visible steps that tracks show at a time; null: all
 * @property {Object<string, Object<number, string>>} names that the reader gave to directions (data/names.js)
 */

/** Directions that have a track at most. */
const MOST = 6;
const CHOICES = {
  choice: ["all", "episode", "behaviour", "direction"],
  end: ["any", "top", "middle", "bottom"],
  when: ["any", "now"],
  scale: ["path", "paths", "frame"],
  palette: ["standard", "safe"],
  band: ["behaviour", "cluster"],
};
export const TABS = ["components", "behaviours", "causes", "remembering", "interventions", "simulator"];
const LONGEST_SEARCH = 100;

const directionCount = ({ memory: { states } }) => states?.directions.length ?? 0;
const behaviourCount = ({ memory: { states } }) => states?.behaviours?.count ?? 0;
const targetsOf = ({ memory: { stretches } }) => (stretches?.targets ?? []).map(({ id }) => id);

/** The paths that can be shown. */
export function pathsOf({ memory: { stretches } }) {
  const paths = stretches?.paths ?? ["memory"];
  return paths.includes("whole") ? [...paths, "world"] : paths;
}

/** @returns {Selection} */
export function initialSelection(manifest) {
  const first = manifest.memory.stretches?.stretches[0];
  return {
    trajectory: first?.trajectory ?? 0,
    frame: first?.frame ?? 0,
    stretch: first ? 0 : -1,
    ...Object.fromEntries(Object.entries(CHOICES).map(([key, [initial]]) => [key, initial])),
    palette: manifest.view?.palette ?? CHOICES.palette[0],
    band: behaviourCount(manifest) ? "behaviour" : "cluster",
    search: "",
    names: {},
    components: [0],
    behaviour: 0,
    target: targetsOf(manifest)[0] ?? "",
    path: pathsOf(manifest)[0],
    opacity: 0.8,
    tab: TABS[0],
    visible: null,
  };
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, Number.isFinite(value) ? value : low));
const whole = (value, low, high) => Math.round(clamp(value, low, high));

/** A selection with a change made, everything in range. @returns {Selection} */
export function changed(manifest, selection, patch) {
  const { trajectories } = manifest;
  const stretches = manifest.memory.stretches?.stretches ?? [];
  const next = { ...selection, ...patch };
  const initial = initialSelection(manifest);
  next.trajectory = whole(next.trajectory, 0, trajectories.length - 1);
  next.frame = whole(next.frame, 0, trajectories[next.trajectory].steps - 1);
  const { trajectory, frame } = next;
  if (!stretches[next.stretch] || !holds(stretches[next.stretch], trajectory, frame))
    next.stretch = stretchAt(stretches, trajectory, frame);
  for (const key of Object.keys(CHOICES)) if (!CHOICES[key].includes(next[key])) next[key] = initial[key];
  if ("components" in patch) {
    const known = [...new Set(next.components)].filter((k) => Number.isInteger(k) && k >= 0);
    const inside = known.filter((k) => k < directionCount(manifest)).slice(0, MOST);
    next.components = inside.length ? inside : selection.components;
  }
  next.behaviour = whole(next.behaviour, 0, Math.max(0, behaviourCount(manifest) - 1));
  if (!targetsOf(manifest).includes(next.target)) next.target = initial.target;
  if (!pathsOf(manifest).includes(next.path)) next.path = initial.path;
  if (!TABS.includes(next.tab)) next.tab = initial.tab;
  next.search = String(next.search).slice(0, LONGEST_SEARCH);
  next.opacity = clamp(next.opacity, 0, 1);
  if (next.visible !== null) next.visible = whole(next.visible, 16, longest(trajectories));
  return next;
}

const longest = (trajectories) => Math.max(16, ...trajectories.map(({ steps }) => steps));

/** Go to the explained step of a stretch. */
export function showStretch({ manifest, selection }, stretch) {
  const { trajectory, frame } = manifest.memory.stretches.stretches[stretch];
  selection.change({ stretch, trajectory, frame });
}

/** Look at a direction; `more`: give it a track beside the others, or take it away. */
export function choose({ selection }, component, more = false) {
  const { components } = selection.now;
  const others = components.filter((k) => k !== component);
  if (!more)
    return selection.change({ components: [component, ...others.slice(components.includes(component) ? 0 : 1)] });
  return selection.change({ components: others.length < components.length ? others : [...components, component] });
}
