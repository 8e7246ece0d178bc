import assert from "node:assert/strict";
import { test } from "node:test";
import { combineAccounts, differenceFrom, outputAccount } from "./account.js";

const array = (shape, ...numbers) => ({ shape, data: Float32Array.from(numbers) });

// Two steps, two features and the rest: positive and negative parts.
const ARRAYS = {
  "totals.action-0": array([2, 3, 2], 3, -1, 0, -2, 0.5, 0, 1, 0, 4, -4, 0, -0.25),
  "gap.action-0": array([2, 3], 0.5, 0.75, 6, 0.75, 1, 7),
  "memory.action-0": array([2], 0, 0.5),
  "totals.action-1": array([2, 3, 2], 1, 0, 1, 0, 1, 0, 0, -1, 0, -1, 0, -1),
  "gap.action-1": array([2, 3], 3, 3, 4, -3, -3, 1),
};

const plain = (account) => ({
  ...Object.fromEntries(Object.entries(account).map(([name, values]) => [name, Array.from(values)])),
  features: account.features.map((values) => Array.from(values)),
});

function sums({ baseline, features, rest, memory, gap }) {
  return Array.from(baseline, (_, t) =>
    [baseline, ...features, rest, memory, gap].reduce((sum, part) => sum + part[t], 0),
  );
}

test("an account has every part of an output, and they add up to it", () => {
  const account = outputAccount(ARRAYS, "action-0");
  assert.deepEqual(plain(account), {
    baseline: [5.25, 5.5],
    features: [
      [2, 1],
      [-2, 0],
    ],
    rest: [0.5, -0.25],
    memory: [0, 0.5],
    gap: [0.25, 0.25],
    output: [6, 7],
  });
  assert.deepEqual(sums(account), [6, 7]);
});

test("without memory its part is zero", () => {
  assert.deepEqual(Array.from(outputAccount(ARRAYS, "action-1").memory), [0, 0]);
});

test("there is no account of the input, nor of an output that the page does not have", () => {
  assert.equal(outputAccount({ "totals.value": ARRAYS["totals.action-0"] }, "value"), null);
  assert.equal(outputAccount(ARRAYS, "value"), null);
});

test("accounts of linear combinations add up to the combination", () => {
  const accounts = ["action-0", "action-1"].map((output) => outputAccount(ARRAYS, output));
  const rather = combineAccounts(accounts, [1, -1]);
  assert.deepEqual(Array.from(rather.output), [2, 6]);
  assert.deepEqual(Array.from(rather.features[0]), [1, 2]);
  assert.deepEqual(sums(rather), [2, 6]);
  const probabilities = [Float32Array.of(0.5, 1), Float32Array.of(0.5, 0)];
  const mean = combineAccounts(accounts, probabilities);
  assert.deepEqual(Array.from(mean.output), [5, 7]);
  assert.deepEqual(sums(mean), [5, 7]);
});

test("the difference of two decompositions adds up to the difference of the outputs", () => {
  const list = (...numbers) => Float64Array.from(numbers);
  const account = {
    baseline: list(5, 5.5, 4, 6),
    features: [list(2, 1, 0, 3), list(-3, 0, 1, 2)],
    rest: list(0.5, -0.25, 0, 0),
    memory: list(0, 0.5, 0, 0),
    gap: list(0.25, 0, -0.5, 0),
    output: list(4.75, 6.75, 4.5, 11),
  };
  const sumAt = ({ baseline, start, features, rest, memory, gap }, t) =>
    [baseline, start, ...features, rest, memory, gap].reduce((sum, values) => sum + values[t], 0);
  for (const instead of [1, "mean"]) {
    const difference = differenceFrom(account, instead, [0, 0, 1, 0]);
    account.output.forEach((output, t) => assert.ok(Math.abs(sumAt(difference, t) - output) < 1e-12));
    assert.equal(difference.whole, account);
  }
  assert.deepEqual(Array.from(differenceFrom(account, 1, [0, 0, 1, 0]).baseline), [6.75, 6.75, 6.75, 6.75]);
  const mean = differenceFrom(account, "mean", [0, 0, 1, 0]);
  assert.deepEqual(Array.from(mean.baseline), [5.75, 5.75, 7.75, 7.75], "of each step's episode");
  assert.deepEqual(Array.from(mean.features[0]), [0.5, -0.5, -1.5, 1.5]);
  assert.deepEqual(Array.from(differenceFrom(account, 2, [0]).error), [0.5, 0.5, 0.5, 0.5]);
});
