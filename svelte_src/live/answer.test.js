import assert from "node:assert/strict";
import { test } from "node:test";
import { actionRows, attributionRows, lossOf } from "./answer.js";

test("attribution is summed over positions, the residual last", () => {
  const array = (shape, ...values) => ({
    shape,
    data: btoa(String.fromCharCode(...new Uint8Array(Float32Array.of(...values).buffer))),
  });
  const before = { channels: array([1, 2, 2], 1, 2, 3, 4), residual: array([1, 2, 1], 0.5, 0.25) };
  const after = { channels: array([1, 2, 2], 0, 2, 0, 4), residual: array([1, 2, 1], 0, 0) };
  assert.deepEqual(attributionRows(before, after, String), [
    { name: "0", values: [4, 0] },
    { name: "1", values: [6, 6] },
    { name: "2", values: [0.75, 0] },
  ]);
});

test("actions with the same effect are one row", () => {
  const actions = ["a", "b", "c"].map((label) => ({ label }));
  const manifest = { agent: { kind: "policy", equivalent_actions: [[0, 2]] }, actions };
  const rows = actionRows(manifest, [0, 0, 0], [0, 0, -1000]);
  assert.deepEqual(
    rows.map(({ label }) => label),
    ["a, c", "b"],
  );
  assert.ok(Math.abs(rows[0].before - 2 / 3) < 1e-9 && Math.abs(rows[0].after - 1 / 2) < 1e-9);
  const separate = actionRows(manifest, [0, 0, 0], [0, 0, -1000], true);
  assert.deepEqual(
    separate.map(({ label }) => label),
    ["a", "b", "c"],
  );
  const losses = [false, true].map((apart) =>
    lossOf(manifest, { values: [0], logits: [[0, 0, 0]] }, { values: [0], logits: [[1000, 0, 0]] }, apart),
  );
  assert.ok(Math.abs(losses[0].policy - 1 / 3) < 1e-9 && Math.abs(losses[1].policy - 2 / 3) < 1e-9);
  const values = { agent: { kind: "action_values" }, actions };
  assert.deepEqual(
    actionRows(values, [0, 2, 1], [3, 2, 1]).map(({ before, after }) => [before, after]),
    [
      [0, 1],
      [1, 0],
      [0, 0],
    ],
  );
});

test("what is lost is the decrease of the value; the policy changes by its total variation", () => {
  const before = { values: [2], logits: [[0, 0]] };
  const after = { values: [1.5], logits: [[Math.log(3), 0]] };
  const actions = [{ label: "a" }, { label: "b" }];
  const { lost, policy } = lossOf({ agent: { kind: "policy" }, actions }, before, after);
  assert.equal(lost, 0.5);
  assert.ok(Math.abs(policy - 0.25) < 1e-12);
  const q = [[1, 3]].map((logits) => ({ logits: [logits] }))[0];
  assert.deepEqual(lossOf({ agent: { kind: "action_values" }, actions }, q, { logits: [[4, 3.5]] }), {
    lost: -1,
    policy: 1,
  });
  assert.equal(lossOf({ agent: { kind: "policy", factors: [{}] } }, before, after).policy, null);
});
