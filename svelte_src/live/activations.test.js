import assert from "node:assert/strict";
import { test } from "node:test";
import { changedActivations } from "./activations.js";

const NOTHING = { only: [], baseline: [], factors: {}, added: {} };
const COMPONENTS = Float32Array.of(1, 0, 0, /**/ 1, 1, 0);

/** A position's changed vector, rounded. */
const changed = (vector, change, start = null) =>
  Array.from(
    changedActivations(Float32Array.from(vector), [3], { ...NOTHING, ...change }, COMPONENTS, start),
    (value) => Math.round(value * 1e5) / 1e5,
  );

test("a feature alone is the projection on its component, and never negative", () => {
  assert.deepEqual(changed([3, 1, 5], { only: [2] }), [2, 2, 0]);
  assert.deepEqual(changed([-3, 1, 5], { only: [2] }), [0, 0, 0]);
});

test("factors scale the coefficients of the nearest non-negative combination", () => {
  assert.deepEqual(changed([3, 1, 5], { factors: { 1: 0, 2: 1 } }), [1, 1, 5]); // 2 of the first and 1 of the second
  assert.deepEqual(changed([1, 3, 5], { factors: { 1: 0, 2: 0 } }), [-1, 1, 5]); // only the second is in it
  assert.deepEqual(changed([3, 1, 5], { factors: { 1: 2 } }), [6, 1, 5]);
});

test("a feature is set to its value at the baseline, and multiples of components are added", () => {
  assert.deepEqual(changed([3, 1, 5], { baseline: [2] }), [1, -1, 5]);
  assert.deepEqual(changed([3, 1, 5], { baseline: [2] }, Float32Array.of(1, 0, 9)), [1.5, -0.5, 5]);
  assert.deepEqual(changed([3, 1, 5], { added: { 2: -2 } }), [1, -1, 5]);
});

test("features change only at the positions that are asked for", () => {
  const change = { ...NOTHING, added: { 1: 1 }, positions: [[0, 1]] };
  const values = changedActivations(new Float32Array(12), [1, 2, 3], change, COMPONENTS, null);
  assert.deepEqual(Array.from(values), [0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0]);
});
