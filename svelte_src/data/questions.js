// Questions about actions: linear combinations of logits, whose attribution is the same combination of the logits'.
import { memoized } from "./cache.js";
import { combineDecompositions, outputDecomposition } from "./decomposition.js";

/**
 * A question is an output with `kind` "question": what `subject` would be rather than `against`.
 *
 * | id | asks for |
 * |---|---|
 * | `taken` | the logit of the action that is taken |
 * | `SUBJECT-less-mean` | the subject's logits less the policy's mean logit, each |
 * | `SUBJECT-less-SUBJECT` | the subject's logits less those of another subject |
 * | `log-SUBJECT` | the subject's log-probability; its attribution is the derivative at the policy, times each logit's |
 *
 * A SUBJECT is `action-3`, `group-0` (several actions together) or `taken`.
 */
const SUBJECT = /^(?:action-(\d+)|group-(\d+)|taken)$/;

/** The output or question of an id, the same object each time; null where the page cannot answer it. */
export const findOutput = memoized((manifest, id) => {
  const stored = manifest.outputs.find((output) => output.id === id);
  if (stored) return stored;
  if (!canAsk(manifest)) return null;
  const [left, right] = id.startsWith("log-") ? [id.slice(4), "log"] : id.split("-less-");
  const subject = subjectOf(manifest, left);
  if (!subject || questionId({ subject: left, against: right ?? "" }) !== id) return null;
  const against = right === undefined || right === "mean" || right === "log" ? right : subjectOf(manifest, right);
  if (against === null || (against === "log" && manifest.agent.kind !== "policy")) return null;
  return { id, kind: "question", subject, against, label: questionLabel(manifest, subject, against) };
});

/** Whether an action is one choice, and the attribution of every choice is stored. */
const canAsk = ({ agent, actions = [], outputs }) =>
  actions.length > 1 &&
  !agent?.factors &&
  actions.every((_, action) => outputs.some((output) => output.action === action));

/** {id, label, actions: indices, or null for the action that is taken}; null where there is no such subject. */
function subjectOf(manifest, id) {
  const [known, action, group] = SUBJECT.exec(id) ?? [];
  if (known === undefined) return null;
  if (action !== undefined) {
    const one = manifest.actions[Number(action)];
    return one ? { id, label: one.label, actions: [Number(action)] } : null;
  }
  if (group === undefined) return { id, label: "action taken", actions: null };
  const one = manifest.agent.action_groups?.[Number(group)];
  return one ? { id, label: one.label, actions: one.actions } : null;
}

function questionLabel(manifest, { label }, against) {
  if (against === undefined) return label;
  if (against === "log") return `log-probability of ${label}`;
  return `${label} rather than ${against === "mean" ? meanLabel(manifest) : against.label}`;
}

const meanLabel = ({ agent }) => (agent.kind === "policy" ? "the policy\u2019s mean" : "the mean action");

/** What can be asked about: [[id, label]] of actions, groups and the action that is taken; empty where nothing can. */
export function subjects(manifest) {
  if (!canAsk(manifest)) return [];
  const groups = manifest.agent.action_groups ?? [];
  return [
    "taken",
    ...manifest.actions.map((_, action) => `action-${action}`),
    ...groups.map((_, group) => `group-${group}`),
  ].map((id) => [id, subjectOf(manifest, id)?.label]);
}

/** A question's subject and what it is compared with, as ids; null for other outputs. "": the logit itself. */
export function partsOfQuestion(manifest, id) {
  if (!subjects(manifest).length) return null;
  if (SUBJECT.test(id)) return { subject: id, against: "" };
  const { subject, against } = findOutput(manifest, id) ?? {};
  return subject ? { subject: subject.id, against: against?.id ?? against } : null;
}

/** The id of a question, from the ids that `partsOfQuestion` returns. */
export function questionId({ subject, against }) {
  if (against === "") return subject;
  return against === "log" ? `log-${subject}` : `${subject}-less-${against}`;
}

/** [[id, label]] of what a subject can be compared with. */
export const comparisons = (manifest, subject) => [
  ["mean", meanLabel(manifest)],
  ...subjects(manifest).filter(([id]) => id !== subject),
];

// Weights of logits.

/** The weight of each action's logit at every step: a list of Float64Array (T). */
const weightsOf = memoized((series, question) => {
  const [steps, count] = series.logits.shape;
  const probability = (t, action) => (series.probabilities ? series.probabilities.data[t * count + action] : 1 / count);
  const { subject, against } = question;
  const member = (t, action, { actions }) =>
    Number(actions ? actions.includes(action) : series.actions.data[t] === action);
  const sizeOf = ({ actions }) => (actions ? actions.length : 1);
  const share = (t, action) => {
    if (!member(t, action, subject)) return 0;
    const members = subject.actions ?? [action];
    return probability(t, action) / members.reduce((sum, one) => sum + probability(t, one), 0);
  };
  const weight = (t, action) => {
    const own = member(t, action, subject);
    if (against === undefined) return own;
    if (against === "mean") return own - sizeOf(subject) * probability(t, action);
    if (against === "log") return share(t, action) - probability(t, action);
    return own - member(t, action, against);
  };
  return Array.from({ length: count }, (_, action) =>
    Float64Array.from({ length: steps }, (_step, t) => weight(t, action)),
  );
});

const ONE = [1];

/**
 * Whose stored outputs an output is the sum of, and with which weights.
 *
 * @param {object} stored what the page stores by output: `layer.attribution`
 * @param {object | null} series arrays along the trajectory; questions need them
 * @returns {{output: string, weights: ArrayLike<number>}[] | null} one weight for each step, or one for all; null where the
 *   series is not there yet
 */
export function termsOf(manifest, stored, output, series) {
  if (output.id in stored) return [{ output: output.id, weights: ONE }];
  if (output.kind === "group") {
    const { actions } = manifest.agent.action_groups[output.group];
    return actions.map((action) => ({ output: `action-${action}`, weights: ONE }));
  }
  if (output.kind !== "question") return [];
  if (!series) return null;
  return weightsOf(series, output)
    .map((weights, action) => ({ output: `action-${action}`, weights }))
    .filter(({ weights }) => weights.some((weight) => weight !== 0));
}

export const weightAt = (weights, step) => (weights.length === 1 ? weights[0] : weights[step]);

/** A question's numbers at every step. @returns {Float32Array | null} */
export const questionSeries = memoized((series, question) => {
  if (!series.logits) return null;
  const [steps, count] = series.logits.shape;
  const { data } = series.logits;
  if (question.against === "log") return logProbabilities(series, question, (t, action) => data[t * count + action]);
  const weights = weightsOf(series, question);
  return Float32Array.from({ length: steps }, (_, t) =>
    weights.reduce((sum, weight, action) => sum + weight[t] * data[t * count + action], 0),
  );
});

/** log(sum over the subject's actions of exp(logit)) less that over all actions. */
function logProbabilities(series, { subject }, logit) {
  const [steps, count] = series.logits.shape;
  const all = Array.from({ length: count }, (_, action) => action);
  const logSum = (t, actions) => {
    const largest = Math.max(...all.map((action) => logit(t, action)));
    return largest + Math.log(actions.reduce((sum, action) => sum + Math.exp(logit(t, action) - largest), 0));
  };
  return Float64Array.from(
    { length: steps },
    (_, t) => logSum(t, subject.actions ?? [series.actions.data[t]]) - logSum(t, all),
  );
}

/**
 * The decomposition of an output or a question at every step, or null where the page does not have it.
 *
 * That of a log-probability starts at its value at the baseline; its completeness error contains what the first
 * order leaves out, its `error` does not.
 */
export function decompositionFor(manifest, totals, output, series) {
  const stored = Object.fromEntries(
    Object.keys(totals)
      .filter((key) => key.startsWith("totals."))
      .map((key) => [key.slice("totals.".length), key]),
  );
  const terms = termsOf(manifest, stored, output, series);
  if (!terms?.length) return null;
  const decompositions = terms.map((term) => outputDecomposition(totals, term.output));
  if (decompositions.some((decomposition) => !decomposition)) return null;
  if (output.id in stored) return decompositions[0];
  return combined(totals, output, series, decompositions, terms);
}

function combined(totals, output, series, decompositions, terms) {
  const steps = decompositions[0].output.length;
  const weights = terms.map(({ weights: each }) => (each.length === 1 ? each[0] : each));
  const decomposition = combineDecompositions(decompositions, weights);
  if (output.against !== "log") return decomposition;
  const [, count] = series.logits.shape;
  const every = Array.from(
    { length: count },
    (_, action) =>
      /** @type {import("./decomposition.js").Decomposition} */ (outputDecomposition(totals, `action-${action}`)),
  );
  const baseline = logProbabilities(series, output, (t, action) => every[action].baseline[t]);
  const { features, residual, memory } = decomposition;
  const values = /** @type {ArrayLike<number>} */ (questionSeries(series, output));
  const missing = Float64Array.from(
    { length: steps },
    (_, t) =>
      values[t] - baseline[t] - residual[t] - memory[t] - features.reduce((sum, feature) => sum + feature[t], 0),
  );
  return {
    ...decomposition,
    baseline,
    completeness_error: missing,
    error: decomposition.completeness_error,
    output: Float64Array.from(values),
  };
}

/** The share of an output's range that a completeness error may have: see `error_limit` of outputs. */
const LIMIT = 0.05;

/**
 * The completeness error above which the attribution of a step is hatched.
 *
 * The page has it for its outputs. That of a question is from its range along the trajectory. Infinity where it is not known.
 */
export function errorLimit({ outputs }, output, decomposition) {
  if (output.kind !== "question") return output.error_limit ?? Infinity;
  if (!outputs.some(({ error_limit: limit }) => limit)) return Infinity; // an older page
  const [low, high] = decomposition.output.reduce(
    ([a, b], value) => [Math.min(a, value), Math.max(b, value)],
    [Infinity, -Infinity],
  );
  return high > low ? LIMIT * (high - low) : Infinity;
}

const above = memoized((decomposition, limit) =>
  Array.from(decomposition.error ?? decomposition.completeness_error, (value) => Math.abs(value) > limit),
);

/** At which steps the completeness error of a decomposition is above its limit: a list of booleans. @returns {boolean[]} */
export const incompleteSteps = (manifest, output, decomposition) =>
  above(decomposition, errorLimit(manifest, output, decomposition));
