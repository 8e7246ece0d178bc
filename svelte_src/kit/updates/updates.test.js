import assert from "node:assert/strict";
import { test } from "node:test";
import { answerTexts, barsOf, chosenUpdate, measuresOf, mostChanged } from "./updates.js";

const checkpoint = (step, changes = {}) => ({ name: `c${step}`, step, shown: "", changes });
const UPDATES = {
  checkpoints: [
    checkpoint(0),
    checkpoint(10, { "maps.value": 4, policy: 0.2, value: 1 }),
    checkpoint(40, { policy: 0.1, value: 3, "maps.value": 2 }),
  ],
};

test("measures are those of the changes, each with its largest mean", () => {
  assert.deepEqual(measuresOf(UPDATES), [
    { key: "policy", label: "policy (nats)", most: 0.2 },
    { key: "value", label: "value", most: 3 },
    { key: "maps.value", label: "map of the value", most: 4 },
  ]);
});

test("the update that changed most is chosen, unless the selection names one", () => {
  assert.deepEqual(chosenUpdate(UPDATES, { update: null, measure: "policy" }), { at: 0, key: "policy" });
  assert.deepEqual(chosenUpdate(UPDATES, { update: null, measure: "value" }), { at: 1, key: "value" });
  assert.deepEqual(chosenUpdate(UPDATES, { update: 9, measure: "no such" }), { at: 1, key: "policy" });
});

test("bars reach from one checkpoint to the next, and are equally wide where steps are unknown", () => {
  assert.deepEqual(barsOf(UPDATES), [
    [0, 0.25],
    [0.25, 1],
  ]);
  assert.deepEqual(barsOf({ checkpoints: [checkpoint(0), checkpoint(null), checkpoint(5)] }), [
    [0, 0.5],
    [0.5, 1],
  ]);
});

test("the observations that an update changed most come first", () => {
  const changes = { data: Float32Array.of(9, 9, 9, 0.25, 1, 0.5), shape: [2, 3] };
  assert.deepEqual(mostChanged(changes, 1, 2), [
    { index: 1, change: 1 },
    { index: 2, change: 0.5 },
  ]);
});

test("a change of the answers in words", () => {
  const chunk = (values, probabilities) => ({
    arrays: {
      values: { data: Float32Array.from(values) },
      probabilities: { data: Float32Array.from(probabilities), shape: [2, 2] },
    },
  });
  const [before, after] = [chunk([0, 1], [0.5, 0.5, 0.25, 0.75]), chunk([0, 2], [0.5, 0.5, 0.75, 0.25])];
  assert.deepEqual(answerTexts(before, after, 1, [{ label: "left" }, { label: "right" }]), [
    "value 1.00 → 2.00",
    "left: 25 % → 75 %",
  ]);
});
