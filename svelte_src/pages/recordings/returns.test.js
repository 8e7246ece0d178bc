import assert from "node:assert/strict";
import { test } from "node:test";
import { expressionOf, runColors } from "./runs.js";
import { dotsPath, nearestRow, placeOf, returnsByRun } from "./returns.js";

const [RUN, OTHER] = [{ id: "1" }, { id: "2" }];
const row = (of, name, step, value) => ({ of, name, step, episode: step / 10, return: value });
const ROWS = [row(RUN, "a", 20, 4), row(RUN, "a", 10, 2), row(OTHER, "b", 5, 1), row(RUN, "a", 30, null)];

test("episodes are in the order of training, with rolling means, without hidden runs and unknown returns", () => {
  const [group, ...others] = returnsByRun(ROWS, (name) => name !== "b");
  assert.equal(others.length, 0);
  assert.deepEqual(group.xs, [10, 20]);
  assert.deepEqual(group.means, [2, 3]);
  assert.equal(returnsByRun(ROWS, () => true).length, 2);
});

test("a rolling mean is of the last ten episodes", () => {
  const rows = Array.from({ length: 12 }, (_, i) => row(RUN, "a", 10 * i, i));
  assert.deepEqual(returnsByRun(rows, () => true)[0].means.slice(-2), [5.5, 6.5]);
});

test("without training steps, episodes are placed by their numbers", () => {
  assert.equal(placeOf(ROWS), "step");
  assert.equal(placeOf([...ROWS, row(RUN, "a", null, 1)]), "episode");
});

test("dots are one path, and the nearest episode is found", () => {
  const [group] = returnsByRun(ROWS, () => true);
  const same = (value) => value;
  assert.equal(dotsPath(group, same, same), "M10.0 2.0h0M20.0 4.0h0");
  assert.deepEqual(
    [0, 14, 16, 99].map((x) => nearestRow(group, x).step),
    [10, 10, 20, 20],
  );
});

test("runs have the colors that TensorBoard gives them, in the order in which they began", () => {
  const runs = ["late", "ppo-1", "ppo-2", "a2c-1"].map((name) => ({ name }));
  const began = [9, 2, 3, 1];
  const table = { runs, rows: runs.map((of, i) => ({ of, time: began[i] })) };
  const colors = (...more) => runs.map((run) => runColors(table, ...more).get(run));
  assert.deepEqual(colors("", "light"), ["#f9ab00", "#12b5cb", "#e52592", "#425066"]);
  assert.deepEqual(colors("(ppo|a2c)", "dark"), ["#9e9e9e", "#12b5cb", "#12b5cb", "#8e98a3"]);
  assert.deepEqual(colors("(", "light"), colors("", "light"), "an expression that is not complete");
});

test("a reader's expression ignores case", () => {
  assert.ok(expressionOf("PPO").test("ppo-1"));
  assert.equal(expressionOf(""), null);
});
