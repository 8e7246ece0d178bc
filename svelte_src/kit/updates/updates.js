// What each update of the network changed (docs/page-format.md, "Section updates").
import { formatNumber, stepsText } from "../shell/format.js";

/**
 * @typedef {import("../../data/sections").UpdatesSection} Updates
 *
 * @typedef {object} Measure a change that is measured
 * @property {string} key as in `changes`
 * @property {string} label
 * @property {number} most the largest mean
 */

const LABELS = { policy: "policy (nats)", value: "value" };

/** A field of the selection: the update that is looked at, counted from 1; null: the one that changed most. */
export const UPDATE_FIELDS = [
  { name: "update", type: "number", whole: true, least: 1, default: null, place: true },
  { name: "measure", type: "text", longest: 40, default: "policy" },
];

/** Those of outputs first. @returns {Measure[]} */
export function measuresOf({ checkpoints }) {
  const keys = Object.keys(checkpoints[1]?.changes ?? {});
  const isMap = (key) => !(key in LABELS);
  return [...keys.filter((key) => !isMap(key)), ...keys.filter(isMap)].map((key) => ({
    key,
    label: LABELS[key] ?? `map of the ${key.replace("maps.", "")}`,
    most: Math.max(...checkpoints.slice(1).map(({ changes }) => changes[key] ?? 0)),
  }));
}

/** The place of the update that is looked at, from 0, and the change by which it is: what the selection says, where it can be. */
export function chosenUpdate(updates, { update, measure }) {
  const measures = measuresOf(updates);
  const key = measures.some((one) => one.key === measure) ? measure : measures[0]?.key;
  const changes = updates.checkpoints.slice(1).map((one) => one.changes[key] ?? 0);
  const at = update === null ? changes.indexOf(Math.max(...changes)) : Math.min(update, changes.length) - 1;
  return { at, key };
}

/**
 * Where the bars of updates are, as shares of the strip's width: from the step of the checkpoint before to that of the checkpoint,
 * or all equally wide where steps are not known.
 *
 * @returns {[number, number][]}
 */
export function barsOf({ checkpoints }) {
  const steps = checkpoints.map(({ step }) => step);
  const [first, last] = [steps[0], steps.at(-1)];
  const known = steps.every((step, i) => Number.isFinite(step) && (i === 0 || step > steps[i - 1]));
  const places = known
    ? steps.map((step) => (step - first) / (last - first))
    : steps.map((_, i) => i / (steps.length - 1));
  return places.slice(1).map((end, i) => [places[i], end]);
}

/** Indices of the observations that an update changed most, the largest change first. */
export function mostChanged({ data, shape: [, count] }, at, most) {
  const changes = [...data.subarray(at * count, (at + 1) * count)];
  const order = changes.map((_, index) => index).sort((a, b) => changes[b] - changes[a]);
  return order.slice(0, most).map((index) => ({ index, change: changes[index] }));
}

/** How an answer changed at a frame, in words: the value, and the action whose probability changed most. */
export function answerTexts(before, after, frame, actions) {
  const texts = [];
  const valueOf = ({ values }) => values?.data[frame];
  const [old, now] = [before, after].map(({ arrays }) => valueOf(arrays));
  if (old !== undefined && now !== undefined) texts.push(`value ${formatNumber(old)} → ${formatNumber(now)}`);
  const [was, is] = [before, after].map(({ arrays }) => rowOf(arrays.probabilities, frame));
  if (was && is) {
    const action = was.reduce((best, p, k) => (Math.abs(is[k] - p) > Math.abs(is[best] - was[best]) ? k : best), 0);
    const percent = (share) => Math.round(100 * share);
    texts.push(`${actions[action]?.label ?? action}: ${percent(was[action])} % → ${percent(is[action])} %`);
  }
  return texts;
}

const rowOf = (array, row) => array && [...array.data.subarray(row * array.shape[1], (row + 1) * array.shape[1])];

/** "checkpoint-10 (491 k steps)" */
export const checkpointText = ({ name, step }, unit) => (step === null ? name : `${name} (${stepsText(step, unit)})`);
