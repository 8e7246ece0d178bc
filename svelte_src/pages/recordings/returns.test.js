import assert from "node:assert/strict";
import { test } from "node:test";
import { expressionOf, runColors } from "./runs.js";
import { curvesByRun, curvesOf, dotsPath, nearestRow, placeOf } from "./returns.js";

const [RUN, OTHER] = [{ id: "1" }, { id: "2" }];
const row = (of, name, step, value) => ({ of, name, step, episode: step / 10, return: value });
const ROWS = [row(RUN, "a", 20, 4), row(RUN, "a", 10, 2), row(OTHER, "b", 5, 1), row(RUN, "a", 30, null)];

test("episodes are in the order of training, with rolling means, without hidden runs and unknown returns", () => {
  const [group, ...others] = curvesByRun(ROWS, (name) => name !== "b");
  assert.equal(others.length, 0);
  assert.deepEqual(group.xs, [10, 20]);
  assert.deepEqual(group.means, [2, 3]);
  assert.equal(curvesByRun(ROWS, () => true).length, 2);
});

test("a rolling mean is of the last ten episodes", () => {
  const rows = Array.from({ length: 12 }, (_, i) => row(RUN, "a", 10 * i, i));
  assert.deepEqual(curvesByRun(rows, () => true)[0].means.slice(-2), [5.5, 6.5]);
});

test("curves show what episodes have: entropy, and total saliency by the method that is shown", () => {
  const outputs = [{ id: "value", label: "value" }];
  const runs = [{ saliency: { methods: [{ name: "jacobian", outputs }] } }, { saliency: null }];
  const rows = [
    { return: 1, length: 5, entropy: 0.5, totals: { jacobian: { value: 7 } }, of: runs[0], name: "a", step: 1 },
    { return: 2, length: 6, of: runs[0], name: "a", step: 2 },
  ];
  const curves = curvesOf({ runs, rows });
  assert.deepEqual(
    curves.map(({ key }) => key),
    ["return", "length", "entropy", "total-value"],
  );
  assert.deepEqual(
    curves.map(({ valueOf }) => curvesByRun(rows, () => true, valueOf)[0].ys),
    [[1, 2], [5, 6], [0.5], [7]],
  );
  assert.deepEqual(
    curvesOf({ runs, rows: rows.slice(1) }).map(({ key }) => key),
    ["return", "length"],
  );
  assert.equal(curvesOf({ runs, rows }, "perturbation").length, 3, "a method without maps");
});

test("without training steps, episodes are placed by their numbers", () => {
  assert.equal(placeOf(ROWS), "step");
  assert.equal(placeOf([...ROWS, row(RUN, "a", null, 1)]), "episode");
});

test("dots are one path, and the nearest episode is found", () => {
  const [group] = curvesByRun(ROWS, () => true);
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
