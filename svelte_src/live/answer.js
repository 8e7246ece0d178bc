// What the network answers, as rows of tables.

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
 * @returns {{lost: number, policy: number | null}}
 */
export function lossOf({ agent }, before, after) {
  const [p, q] = [before, after].map(({ logits }) => probabilities(logits[0], agent.kind !== "policy"));
  const outputs = [before, after].map(({ values, logits }) => (values ? values[0] : Math.max(...logits[0])));
  const policy = agent.factors ? null : p.reduce((sum, one, k) => sum + Math.abs(one - q[k]), 0) / 2;
  return { lost: outputs[0] - outputs[1], policy };
}

/**
 * Rows of a table of actions: those with the same effect are one, whose probabilities are added.
 *
 * @returns {{label: string, before: number, after: number}[]}
 */
export function actionRows({ agent, actions }, before, after) {
  const ofValues = agent.kind !== "policy";
  const [p, q] = [before, after].map((logits) => (agent.factors ? logits : probabilities(logits, ofValues)));
  const groups = agent.factors ? [] : (agent.equivalent_actions ?? []);
  const grouped = new Set(groups.flat());
  const all = [...groups, ...p.map((_, k) => [k]).filter(([k]) => !grouped.has(k))].sort((a, b) => a[0] - b[0]);
  const sum = (numbers, group) => group.reduce((total, k) => total + numbers[k], 0);
  return all.map((group) => ({
    label: actions[group[0]]?.label ?? String(group[0]),
    before: sum(p, group),
    after: sum(q, group),
  }));
}
