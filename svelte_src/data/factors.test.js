import assert from "node:assert/strict";
import { test } from "node:test";
import { factorsAt, takenAction } from "./actions.js";
import { findOutput, subjects } from "./questions.js";

const labels = ["move: left", "move: right", "fire: on", "speed: mean", "speed: log std"];
const manifest = {
  agent: {
    kind: "policy",
    factors: [
      { kind: "choice", label: "move", first: 0, outputs: 2 },
      { kind: "switch", label: "fire", first: 2, outputs: 1 },
      { kind: "number", label: "speed", first: 3, outputs: 2, low: 0, high: 2, squashed: true },
    ],
  },
  actions: labels.map((label) => ({ label, color: "#123456" })),
  outputs: labels.map((label, action) => ({ id: `action-${action}`, kind: "action", label, action })),
};
const arrays = {
  logits: { data: Float32Array.from([9, 9, 9, 9, 9, 0, Math.log(3), Math.log(4), 0.5, -1]), shape: [2, 5] },
  "info.action.0": { data: Float32Array.from([0, 1]), shape: [2] },
  "info.action.1": { data: Float32Array.from([0, 1]), shape: [2] },
  "info.action.2": { data: Float32Array.from([0, -0.25]), shape: [2] },
};

test("each factor has its own probabilities, and a number its spread as an action", () => {
  const [move, fire, speed] = factorsAt(manifest, arrays, 1);
  assert.deepEqual(
    move.choices.map(({ label, share, taken }) => [label, share.toFixed(4), taken]),
    [
      ["left", "0.2500", false],
      ["right", "0.7500", true],
    ],
  );
  assert.deepEqual(
    fire.choices.map(({ label, share }) => [label, share.toFixed(4)]),
    [
      ["off", "0.2000"],
      ["on", "0.8000"],
    ],
  );
  const std = Math.exp(-1);
  const expected = [0.5, 0.5 - std, 0.5 + std].map((number) => (1 + Math.tanh(number)).toFixed(5));
  assert.deepEqual(
    [speed.mean, speed.low, speed.high].map((number) => number.toFixed(5)),
    expected,
  );
});

test("a number that is not squashed is clipped, and its standard deviation may be constant", () => {
  const factor = { kind: "number", label: "speed", first: 3, outputs: 1, low: 0, high: 0.6, std: 0.2 };
  const [speed] = factorsAt({ agent: { factors: [factor] }, actions: manifest.actions }, arrays, 1);
  assert.deepEqual(
    [speed.mean, speed.low, speed.high].map((number) => number.toFixed(3)),
    ["0.500", "0.300", "0.600"],
  );
});

test("an action of several factors is named by its choices and numbers", () => {
  assert.equal(takenAction(manifest, arrays, 1), "right, on, \u22120.25");
  const single = { agent: {}, actions: [{ label: "jump" }] };
  assert.equal(takenAction(single, { actions: { data: [0] } }, 0), "jump");
});

test("there are no questions about one choice among the outputs of several factors", () => {
  assert.deepEqual(subjects(manifest), []);
  assert.equal(findOutput(manifest, "taken"), null);
  assert.equal(findOutput(manifest, "action-3").label, "speed: mean");
});
