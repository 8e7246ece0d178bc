import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decompositionFor,
  comparisons,
  errorLimit,
  findOutput,
  incompleteSteps,
  partsOfQuestion,
  questionId,
  questionSeries,
  subjects,
  termsOf,
} from "./questions.js";

const array = (shape, ...numbers) => ({ shape, data: Float32Array.from(numbers) });

const MANIFEST = {
  agent: { kind: "policy", action_groups: [{ label: "jump", actions: [1, 2] }] },
  actions: ["left", "up", "right"].map((label) => ({ label })),
  outputs: [
    { id: "value", kind: "value" },
    ...[0, 1, 2].map((action) => ({ id: `action-${action}`, kind: "action", action })),
    { id: "group-0", kind: "group", group: 0 },
  ],
};
// Two steps; probabilities 1/4, 1/4, 1/2 and 1/2, 1/4, 1/4.
const LOGITS = [0, 0, Math.log(2), 1 + Math.log(2), 1, 1];
const SERIES = {
  logits: array([2, 3], ...LOGITS),
  probabilities: array([2, 3], 0.25, 0.25, 0.5, 0.5, 0.25, 0.25),
  actions: { shape: [2], data: Int32Array.of(2, 0) },
};
const STORED = Object.fromEntries(MANIFEST.outputs.slice(0, 4).map(({ id }) => [id, []]));

const near = (actual, expected) =>
  expected.forEach((x, i) => assert.ok(Math.abs(actual[i] - x) < 1e-6, `${Array.from(actual)} is not ${expected}`));

/** The weights of the three logits, at each step. */
function weightsFor(id) {
  const terms = termsOf(MANIFEST, STORED, findOutput(MANIFEST, id), SERIES);
  const weightsAt = (t) =>
    [0, 1, 2].map((action) => {
      const weights = terms.find(({ output }) => output === `action-${action}`)?.weights ?? [0];
      return weights.length === 1 ? weights[0] : weights[t];
    });
  return [...weightsAt(0), ...weightsAt(1)];
}

test("weights are those of the question at each step", () => {
  near(weightsFor("action-1"), [0, 1, 0, 0, 1, 0]);
  near(weightsFor("taken"), [0, 0, 1, 1, 0, 0]);
  near(weightsFor("action-0-less-action-2"), [1, 0, -1, 1, 0, -1]);
  near(weightsFor("action-0-less-mean"), [0.75, -0.25, -0.5, 0.5, -0.25, -0.25]);
  near(weightsFor("log-action-0"), weightsFor("action-0-less-mean"));
  near(weightsFor("taken-less-mean"), [-0.25, -0.25, 0.5, 0.5, -0.25, -0.25]);
  near(weightsFor("group-0"), [0, 1, 1, 0, 1, 1]);
  near(weightsFor("group-0-less-mean"), [-0.5, 0.5, 0, -1, 0.5, 0.5]);
  near(weightsFor("log-group-0"), [-0.25, 1 / 3 - 0.25, 2 / 3 - 0.5, -0.5, 0.25, 0.25]);
});

test("stored outputs are themselves; questions wait for the series", () => {
  assert.deepEqual(termsOf(MANIFEST, STORED, findOutput(MANIFEST, "value"), null), [{ output: "value", weights: [1] }]);
  assert.equal(termsOf(MANIFEST, STORED, findOutput(MANIFEST, "taken"), null), null);
});

test("numbers of questions follow from logits", () => {
  const numbers = (id) => questionSeries(SERIES, findOutput(MANIFEST, id));
  near(numbers("action-0-less-action-2"), [-Math.log(2), Math.log(2)]);
  near(numbers("taken-less-mean"), [Math.log(2) / 2, Math.log(2) / 2]);
  near(numbers("log-action-1"), [Math.log(0.25), Math.log(0.25)]);
  near(numbers("log-taken"), [Math.log(0.5), Math.log(0.5)]);
  near(numbers("log-group-0"), [Math.log(0.75), Math.log(0.5)]);
});

test("without probabilities the mean is that of all actions, and nothing is a log-probability", () => {
  const values = { ...MANIFEST, agent: { kind: "action_values" } };
  const { logits, actions } = SERIES;
  near(questionSeries({ logits, actions }, findOutput(values, "taken-less-mean")), [
    (2 * Math.log(2)) / 3,
    (2 * Math.log(2)) / 3,
  ]);
  assert.equal(findOutput(values, "log-taken"), null);
  assert.match(findOutput(values, "action-0-less-mean").label, /mean action$/);
});

test("what cannot be asked is no output", () => {
  const wrong = ["action-3", "group-1-less-mean", "action-0-less-", "log-", "value-less-mean", "taken-less-log"];
  for (const id of [...wrong, "action-0-less-mean-less-mean", "constructor", "__proto__"]) {
    assert.equal(findOutput(MANIFEST, id), null, id);
  }
  const few = { ...MANIFEST, outputs: MANIFEST.outputs.slice(0, 2) };
  assert.equal(findOutput(few, "taken"), null, "not every action is stored");
  assert.deepEqual(subjects(few), []);
  assert.equal(findOutput(MANIFEST, "taken"), findOutput(MANIFEST, "taken"), "the same object each time");
});

test("a question's parts and its id are the same", () => {
  for (const id of ["taken", "action-1", "group-0-less-action-0", "taken-less-mean", "log-group-0"]) {
    assert.equal(questionId(partsOfQuestion(MANIFEST, id)), id);
  }
  assert.equal(partsOfQuestion(MANIFEST, "value"), null);
  assert.deepEqual(
    comparisons(MANIFEST, "action-1").map(([id]) => id),
    ["mean", "taken", "action-0", "action-2", "group-0"],
  );
});

// Totals of one feature and the residual; s at the baseline is 0.5 for each action, attribution adds up but for
// the completeness error.
const TOTALS = Object.fromEntries(
  [0, 1, 2].flatMap((action) => {
    const [first, second] = [LOGITS[action], LOGITS[3 + action]];
    return [
      [`totals.action-${action}`, array([2, 2, 2], first, -0.75, 0.125, 0, second, -0.75, 0.125, 0)],
      [`gap.action-${action}`, array([2, 3], first - 0.625, first - 0.5, first, second - 0.625, second - 0.5, second)],
    ];
  }),
);
const sumsOf = ({ baseline, features, residual, memory, completeness_error }) =>
  baseline.map((_, t) =>
    [baseline, ...features, residual, memory, completeness_error].reduce((sum, part) => sum + part[t], 0),
  );

test("decompositions of questions add up to their numbers", () => {
  for (const id of ["action-0-less-mean", "taken", "group-0", "log-action-1", "log-group-0"]) {
    const output = findOutput(MANIFEST, id);
    const decomposition = decompositionFor(MANIFEST, TOTALS, output, SERIES);
    near(sumsOf(decomposition), Array.from(decomposition.output));
    if (output.kind === "question") near(decomposition.output, Array.from(questionSeries(SERIES, output)));
  }
  const mean = decompositionFor(MANIFEST, TOTALS, findOutput(MANIFEST, "action-0-less-mean"), SERIES);
  near(mean.baseline, [0, 0]);
  near(mean.features[0], [-Math.log(2) / 2, Math.log(2) / 2]);
  const log = decompositionFor(MANIFEST, TOTALS, findOutput(MANIFEST, "log-action-1"), SERIES);
  near(log.baseline, [Math.log(1 / 3), Math.log(1 / 3)]);
  assert.equal(decompositionFor(MANIFEST, {}, findOutput(MANIFEST, "taken"), SERIES), null);
  assert.equal(decompositionFor(MANIFEST, TOTALS, findOutput(MANIFEST, "taken"), null), null);
});

test("steps are incomplete where the error is above the limit of the output", () => {
  const decomposition = { completeness_error: Float64Array.of(0.1, -0.3, 0.2), output: Float64Array.of(1, 2, 7) };
  const outputs = MANIFEST.outputs.map((output) => ({ ...output, error_limit: 0.2 }));
  const manifest = { ...MANIFEST, outputs };
  assert.deepEqual(incompleteSteps(manifest, outputs[0], decomposition), [false, true, false], "whatever its sign");
  const older = findOutput(MANIFEST, "value");
  assert.deepEqual(incompleteSteps(MANIFEST, older, decomposition), [false, false, false], "not on older pages");
  const question = findOutput(manifest, "action-0-less-mean");
  assert.ok(
    Math.abs(errorLimit(manifest, question, decomposition) - 0.3) < 1e-12,
    "5 % of its range along the trajectory",
  );
  assert.equal(errorLimit(MANIFEST, findOutput(MANIFEST, "action-0-less-mean"), decomposition), Infinity);
  assert.equal(errorLimit(manifest, question, { output: Float64Array.of(1, 1) }), Infinity);
  const logarithm = { ...decomposition, error: Float64Array.of(0, 0, 0.4) };
  assert.deepEqual(incompleteSteps(manifest, outputs[0], logarithm), [false, false, true], "without the first order's");
});
