// What the network answers, as rows of tables.
import { mergedActions } from "../data/actions.js";

/**
 * The attribution of an output to each feature of a layer and to the residual, summed over positions, before and after.
 *
 * @param {{channels: {shape: number[], data: string}, residual: {data: string}}} before
 * @param {(k: number) => string} nameOf
 */
export function attributionRows(before, after, nameOf) {
  const count = /** @type {number} */ (before.channels.shape.at(-1));
  const sums = [before, after].map(({ channels, residual }) => {
    const totals = new Array(count + 1).fill(0);
    floats(channels.data).forEach((value, i) => (totals[i % count] += value));
    floats(residual.data).forEach((value) => (totals[count] += value));
    return totals;
  });
  return sums[0].map((_, k) => ({ name: nameOf(k), values: sums.map((totals) => totals[k]) }));
}

/** Base64 of float32. */
const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);

/** Probabilities of actions, from logits; of the best action alone, from action values. */
export function probabilities(logits, ofValues) {
  const largest = Math.max(...logits);
  if (ofValues) {
    const best = logits.indexOf(largest);
    return logits.map((_, k) => (k === best ? 1 : 0));
  }
  const weights = logits.map((logit) => Math.exp(logit - largest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/**
 * How much of the value, or of the largest action value without one, is lost at one step, and how much the policy changes, by its
 * total variation; null for several choices at once.
 *
 * @param {any} manifest
 * @param {any} before @param {any} after answers for one step
 * @param {boolean} [separate] as in `actionRows`
 * @returns {{lost: number, policy: number | null}}
 */
export function lossOf(manifest, before, after, separate = false) {
  const outputs = [before, after].map(({ values, logits }) => (values ? values[0] : Math.max(...logits[0])));
  const rows = manifest.agent.factors ? null : actionRows(manifest, before.logits[0], after.logits[0], separate);
  const policy = rows && rows.reduce((sum, row) => sum + Math.abs(row.before - row.after), 0) / 2;
  return { lost: outputs[0] - outputs[1], policy };
}

/**
 * Rows of a table of actions.
 *
 * @param {any} manifest
 * @param {any} before @param {any} after logits
 * @param {boolean} [separate] whether actions with the same effect are separate, or one whose probabilities are added
 * @returns {{label: string, before: number, after: number}[]}
 */
export function actionRows({ agent, actions }, before, after, separate = false) {
  const ofValues = agent.kind !== "policy";
  const [p, q] = [before, after].map((logits) => (agent.factors ? logits : probabilities(logits, ofValues)));
  const sum = (numbers, group) => group.reduce((total, k) => total + numbers[k], 0);
  return mergedActions(p.length, agent.factors || separate ? [] : agent.equivalent_actions).map((group) => ({
    label: group.map((k) => actions[k]?.label ?? String(k)).join(", "),
    before: sum(p, group),
    after: sum(q, group),
  }));
}
