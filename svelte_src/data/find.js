// Frames by condition, or by several that hold together.
import { causesOf } from "./episodes.js";
import { findOutput } from "./questions.js";

/** @typedef {{conditions: object[], trajectory: number | null}} Search conditions that hold together, in one trajectory or all */

/** The kinds of condition; `compare`: above or below a number, or another number; `output`, `channel`: which one is asked
 * for; those of saliency are the outputs of its methods. */
export const CONDITIONS = [
  { id: "action", label: "Action taken" },
  { id: "reward", label: "Reward", compare: true },
  { id: "value", label: "Value", compare: true },
  { id: "entropy", label: "Entropy of the policy", compare: true },
  { id: "advantage", label: "Advantage", compare: true },
  { id: "output", label: "Output", output: true, compare: true },
  { id: "jump", label: "Jump of an output", output: true, compare: true },
  { id: "channel", label: "Attribution to a feature", output: true, channel: true, compare: true },
  { id: "activation", label: "Activation of a feature", channel: true, compare: true },
  { id: "saliency", label: "Saliency of an output", channel: true, compare: true },
  { id: "first", label: "First frame of an episode" },
  { id: "left", label: "Steps before the end of the episode", compare: true },
  { id: "bookmark", label: "Bookmark" },
  { id: "end", label: "End of the episode" },
  { id: "ended", label: "Last frame of an episode, ended by" },
];

/** The kinds that each page knows. */
export const KINDS = {
  agent: [
    "action",
    "reward",
    "advantage",
    "output",
    "jump",
    "channel",
    "activation",
    "saliency",
    "first",
    "left",
    "bookmark",
    "ended",
  ],
  recordings: ["action", "reward", "value", "entropy", "advantage", "end"],
};

/** What a condition of these kinds can ask for: [id, label]. */
const WHICH = {
  ended: [],
  bookmark: [
    ["high", "Unexpected success"],
    ["low", "Unexpected failure"],
  ],
  end: [
    ["done", "done"],
    ["time-limit", "time limit (truncated)"],
  ],
};

/** What a kind of condition can ask for on a page; undefined for other kinds. */
export const choicesOf = (manifest, kind) => (kind === "ended" ? causesOf(manifest) : WHICH[kind]);

export const COMPARE = [
  ["above", "above"],
  ["below", "below"],
  ["not", "other than"],
];

/** @typedef {(typeof CONDITIONS)[number]} Kind */

/** A condition has one of these kinds. */
export const kindOf = (condition) => /** @type {Kind} */ (CONDITIONS.find(({ id }) => id === condition.kind));

/** Whether a condition compares with a number that is not there: an empty field is not 0. */
export const lacksNumber = (condition) =>
  Boolean(kindOf(condition).compare) && (typeof condition.value !== "number" || !Number.isFinite(condition.value));

/** What a condition measures at every step, as a function of the step; null where the page does not have it. */
export function measureOf(condition, { series, firsts, output, channel, places }) {
  if (condition.kind === "action") return series.actions && ((t) => series.actions.data[t]);
  if (condition.kind === "reward") return (t) => series.rewards.data[t];
  if (condition.kind === "advantage") return series.advantages && ((t) => series.advantages.data[t]);
  if (condition.kind === "first") return (t) => firsts[t];
  if (condition.kind === "left") {
    const left = stepsLeft(firsts);
    return (t) => left[t];
  }
  if (["output", "value", "entropy"].includes(condition.kind)) return output && ((t) => output[t]);
  if (condition.kind === "jump") return output && ((t) => (t === 0 || firsts[t] ? 0 : output[t] - output[t - 1]));
  if (["channel", "activation", "saliency"].includes(condition.kind)) return channel && ((t) => channel[t]);
  if (Object.hasOwn(WHICH, condition.kind)) return places && ((t) => places.get(t));
  return null;
}

/** Steps until the last one of the episode; NaN where its end is not in the trajectory. */
function stepsLeft(firsts) {
  const left = new Float32Array(firsts.length);
  let last = NaN;
  for (let t = firsts.length - 1; t >= 0; t -= 1) {
    left[t] = last - t;
    if (firsts[t]) last = t - 1;
  }
  return left;
}

/**
 * The steps at which all conditions hold, in order of time. Each has a context of its own; the measure is that of the
 * first condition that has one.
 *
 * @returns {{frame: number, measure: number | null}[]}
 */
export function findFrames(conditions, contexts) {
  const measures = conditions.map((condition, i) => measureOf(condition, contexts[i]));
  if (!measures.length || measures.some((measure) => !measure)) return [];
  const fits = conditions.map(fitting);
  const ranking = conditions.findIndex(ranks);
  const found = [];
  for (let t = 0; t < contexts[0].firsts.length; t += 1) {
    if (measures.every((measure, i) => fits[i](measure(t)))) {
      found.push({ frame: t, measure: ranking < 0 ? null : measures[ranking](t) });
    }
  }
  return found;
}

function fitting({ kind, compare, value }) {
  if (kind === "action") return (x) => x === value;
  if (kind === "first") return (x) => x !== 0;
  if (Object.hasOwn(WHICH, kind)) return (x) => x !== undefined;
  if (compare === "not") return (x) => x < value || x > value;
  return compare === "below" ? (x) => x < value : (x) => x > value;
}

const ranks = ({ kind }) => !["action", "first", "end", "ended"].includes(kind);

/** Strongest first where a condition has numbers, else in order of time. */
export function ordered(found, conditions) {
  const ranking = conditions.find(ranks);
  if (!ranking) return found;
  const ascending = ranking.kind === "bookmark" ? ranking.which === "low" : ranking.compare === "below";
  return [...found].sort((a, b) => (ascending ? a.measure - b.measure : b.measure - a.measure));
}

// A search as text, such as "advantage~below~-1,feature~above~0.5~value~2b~3,in~2": trajectory and feature count from 1.

const MAX_CONDITIONS = 8;

/** @param {{layers: any[]}} manifest @param {Search} search */
export function searchToText(manifest, { conditions, trajectory }) {
  const texts = conditions.map((condition) => conditionToText(manifest, condition));
  return [...texts, ...(trajectory === null ? [] : [`in~${trajectory + 1}`])].join(",");
}

function conditionToText({ layers }, { kind, compare, value, output, layer, channel, which }) {
  const asked = kindOf({ kind });
  if (kind === "action") return `action~${value}`;
  if (Object.hasOwn(WHICH, kind)) return `${kind}~${which}`;
  const parts = [kind === "channel" ? "feature" : kind];
  if (asked.compare) parts.push(compare, value);
  if (asked.output) parts.push(output);
  if (asked.channel)
    parts.push(layers[layer].slug, kind === "saliency" ? layers[layer].outputs[channel].id : channel + 1);
  return parts.join("~");
}

/**
 * @param {string[]} kinds that the page knows
 * @returns {Search | null} null if no condition is one of this page
 */
export function searchFromText(manifest, text, kinds = KINDS.agent) {
  let trajectory = null;
  const conditions = [];
  for (const part of text.split(",")) {
    const [name, ...rest] = part.split("~");
    if (name === "in" && manifest.trajectories[Number(rest[0]) - 1]) trajectory = Number(rest[0]) - 1;
    const condition = conditionFromText(manifest, name, rest);
    if (condition && kinds.includes(condition.kind)) conditions.push(condition);
  }
  return conditions.length ? { conditions: conditions.slice(0, MAX_CONDITIONS), trajectory } : null;
}

/** A field of a selection that is a search; `of`: the manifest that conditions are of, `conditions`: kinds that the page knows. */
export const SEARCH = {
  initial: null,
  format: (search, { get }) => search && searchToText(get("of"), search),
  parse: (text, { get }) => searchFromText(get("of"), text, get("conditions")),
};

function conditionFromText(manifest, name, rest) {
  if (name === "action") return manifest.actions[rest[0]] ? { kind: name, value: Number(rest[0]) } : null;
  if (Object.hasOwn(WHICH, name))
    return choicesOf(manifest, name).some(([id]) => id === rest[0]) ? { kind: name, which: rest[0] } : null;
  const kind = name === "feature" ? "channel" : name;
  const asked = kindOf({ kind });
  if (!asked) return null;
  const condition = { kind };
  const parts = [...rest];
  if (asked.compare) Object.assign(condition, { compare: parts.shift(), value: Number(parts.shift() || NaN) });
  if (asked.output) condition.output = parts.shift();
  if (asked.channel) {
    const [slug, channel] = parts;
    condition.layer = manifest.layers.findIndex(
      (layer) => layer.slug === slug && (layer.kind === "saliency") === (kind === "saliency"),
    );
    const { outputs = [] } = manifest.layers[condition.layer] ?? {};
    condition.channel = kind === "saliency" ? outputs.findIndex(({ id }) => id === channel) : Number(channel) - 1;
  }
  return isPossible(manifest, condition) ? condition : null;
}

function isPossible(manifest, condition) {
  const { compare, output, layer, channel } = condition;
  if (compare !== undefined && !COMPARE.some(([id]) => id === compare)) return false;
  if (lacksNumber(condition)) return false;
  if (output !== undefined && !findOutput(manifest, output)) return false;
  return (
    channel === undefined || (Number.isInteger(channel) && channel >= 0 && channel < manifest.layers[layer]?.channels)
  );
}

const inTime = (a, b) => a.trajectory - b.trajectory || a.frame - b.frame;

/** The match after a place in time, or before it (direction -1); beyond the last one, the first; null if there are none. */
export function nextMatch(matches, place, direction) {
  const sorted = [...matches].sort((a, b) => direction * inTime(a, b));
  return sorted.find((match) => direction * inTime(match, place) > 0) ?? sorted[0] ?? null;
}

/** How many matches there are up to a place, in order of time; null where it is none of them. */
export function placeOf(matches, place) {
  if (!matches.some((match) => inTime(match, place) === 0)) return null;
  return matches.filter((match) => inTime(match, place) <= 0).length;
}
