/** What the page calls an action; its number where it has no label. */
export const actionLabel = (actions, index) => actions[index]?.label ?? String(index);

/** All actions as groups: those given, and each other action alone, by their first action. */
export function mergedActions(count, equivalent = []) {
  const rest = Array.from({ length: count }, (_, k) => k).filter((k) => !equivalent.some((group) => group.includes(k)));
  return [...equivalent, ...rest.map((k) => [k])].sort((a, b) => a[0] - b[0]);
}

/**
 * The factors of the action at a step, for agents whose actions are not one choice.
 *
 * @param {any} manifest
 * @param {any} arrays the series of a trajectory
 * @param {number} step
 * @returns {any[]} {kind, label, taken, text}, `taken` in words; with `choices` {label, color, share, taken}, or, for a
 *   number, `mean`, `std`, and `low` and `high` of one standard deviation around it, all as actions
 */
export function factorsAt({ agent, actions }, arrays, step) {
  const width = actions.length;
  return (agent.factors ?? []).map((factor, i) => {
    const { kind, label, first, outputs } = factor;
    const numbers = arrays.logits && arrays.logits.data.subarray(step * width + first, step * width + first + outputs);
    const taken = arrays[`info.action.${i}`]?.data[step];
    const base = { kind, label, taken };
    if (kind === "number") return numbers ? { ...base, factor, ...spread(factor, numbers) } : { ...base, factor };
    const { color } = actions[first];
    const logits = kind === "switch" ? [0, ...(numbers ?? [])] : [...(numbers ?? [])];
    const shares = softmax(logits);
    const choices = shares.map((share, k) => ({
      label: kind === "switch" ? ["off", "on"][k] : actions[first + k].label.slice(label.length + 2),
      color: kind === "switch" ? [null, color][k] : actions[first + k].color,
      share,
      taken: k === taken,
    }));
    return { ...base, choices };
  });
}

/** What a step's action is called: its label, or the choices and numbers of its factors. @returns {string} */
export function takenAction(manifest, arrays, step) {
  if (!manifest.agent.factors) return actionLabel(manifest.actions, arrays.actions.data[step]);
  const words = ({ choices, taken }) => choices?.find((choice) => choice.taken)?.label ?? rounded(taken);
  return factorsAt(manifest, arrays, step).map(words).join(", ");
}

/** Two decimals are enough to compare actions. */
export const rounded = (number) => (number === undefined ? "\u2013" : number.toFixed(2).replace("-", "\u2212"));

function spread(factor, [mean, logStd]) {
  const std = logStd === undefined ? (factor.std ?? 0) : Math.exp(logStd);
  const at = (number) => toAction(factor, number);
  return { mean: at(mean), low: at(mean - std), high: at(mean + std), std };
}

function toAction({ low = -Infinity, high = Infinity, squashed }, number) {
  if (squashed) return (low + high) / 2 + (Math.tanh(number) * (high - low)) / 2;
  return Math.min(high, Math.max(low, number));
}

function softmax(logits) {
  const largest = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp(logit - largest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}
