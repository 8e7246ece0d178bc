import assert from "node:assert/strict";
import { test } from "node:test";
import { combineDecompositions, differenceFrom, outputDecomposition } from "./decomposition.js";

const array = (shape, ...numbers) => ({ shape, data: Float32Array.from(numbers) });

// Two steps, two features and the residual: positive and negative parts.
const ARRAYS = {
  "totals.action-0": array([2, 3, 2], 3, -1, 0, -2, 0.5, 0, 1, 0, 4, -4, 0, -0.25),
  "gap.action-0": array([2, 3], 0.5, 0.75, 6, 0.75, 1, 7),
  "memory.action-0": array([2], 0, 0.5),
  "totals.action-1": array([2, 3, 2], 1, 0, 1, 0, 1, 0, 0, -1, 0, -1, 0, -1),
  "gap.action-1": array([2, 3], 3, 3, 4, -3, -3, 1),
};

const plain = (decomposition) => ({
  ...Object.fromEntries(Object.entries(decomposition).map(([name, values]) => [name, Array.from(values)])),
  features: decomposition.features.map((values) => Array.from(values)),
});

function sums({ baseline, features, residual, memory, completeness_error }) {
  return Array.from(baseline, (_, t) =>
    [baseline, ...features, residual, memory, completeness_error].reduce((sum, part) => sum + part[t], 0),
  );
}

test("a decomposition has every part of an output, and they add up to it", () => {
  const decomposition = outputDecomposition(ARRAYS, "action-0");
  assert.deepEqual(plain(decomposition), {
    baseline: [5.25, 5.5],
    features: [
      [2, 1],
      [-2, 0],
    ],
    residual: [0.5, -0.25],
    memory: [0, 0.5],
    completeness_error: [0.25, 0.25],
    output: [6, 7],
  });
  assert.deepEqual(sums(decomposition), [6, 7]);
});

test("without memory its part is zero", () => {
  assert.deepEqual(Array.from(outputDecomposition(ARRAYS, "action-1").memory), [0, 0]);
});

test("there is no decomposition of the input, nor of an output that the page does not have", () => {
  assert.equal(outputDecomposition({ "totals.value": ARRAYS["totals.action-0"] }, "value"), null);
  assert.equal(outputDecomposition(ARRAYS, "value"), null);
});

test("decompositions of linear combinations add up to the combination", () => {
  const decompositions = ["action-0", "action-1"].map((output) => outputDecomposition(ARRAYS, output));
  const rather = combineDecompositions(decompositions, [1, -1]);
  assert.deepEqual(Array.from(rather.output), [2, 6]);
  assert.deepEqual(Array.from(rather.features[0]), [1, 2]);
  assert.deepEqual(sums(rather), [2, 6]);
  const probabilities = [Float32Array.of(0.5, 1), Float32Array.of(0.5, 0)];
  const mean = combineDecompositions(decompositions, probabilities);
  assert.deepEqual(Array.from(mean.output), [5, 7]);
  assert.deepEqual(sums(mean), [5, 7]);
});

test("the difference of two decompositions adds up to the difference of the outputs", () => {
  const list = (...numbers) => Float64Array.from(numbers);
  const decomposition = {
    baseline: list(5, 5.5, 4, 6),
    features: [list(2, 1, 0, 3), list(-3, 0, 1, 2)],
    residual: list(0.5, -0.25, 0, 0),
    memory: list(0, 0.5, 0, 0),
    completeness_error: list(0.25, 0, -0.5, 0),
    output: list(4.75, 6.75, 4.5, 11),
  };
  const sumAt = ({ baseline, start, features, residual, memory, completeness_error }, t) =>
    [baseline, start, ...features, residual, memory, completeness_error].reduce((sum, values) => sum + values[t], 0);
  for (const instead of [1, "mean"]) {
    const difference = differenceFrom(decomposition, instead, [0, 0, 1, 0]);
    decomposition.output.forEach((output, t) => assert.ok(Math.abs(sumAt(difference, t) - output) < 1e-12));
    assert.equal(difference.whole, decomposition);
  }
  assert.deepEqual(Array.from(differenceFrom(decomposition, 1, [0, 0, 1, 0]).baseline), [6.75, 6.75, 6.75, 6.75]);
  const mean = differenceFrom(decomposition, "mean", [0, 0, 1, 0]);
  assert.deepEqual(Array.from(mean.baseline), [5.75, 5.75, 7.75, 7.75], "of each step's episode");
  assert.deepEqual(Array.from(mean.features[0]), [0.5, -0.5, -1.5, 1.5]);
  assert.deepEqual(Array.from(differenceFrom(decomposition, 2, [0]).error), [0.5, 0.5, 0.5, 0.5]);
});
