import assert from "node:assert/strict";
import { test } from "node:test";
import { bandPath, indexAt, linePath, nearestLine, scaleOf, ticks, tickText } from "./chart.js";

const same = (x) => x;

test("ticks are round numbers in the range", () => {
  assert.deepEqual(ticks([0, 1], 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks([-30, 70], 4), [0, 50]);
  assert.deepEqual(ticks([5, 5], 4), [5]);
  assert.equal(tickText(-0.30000000000000004), "\u22120.3");
});

test("a scale maps the ends of a range to pixels", () => {
  const toX = scaleOf([10, 20], 50, 150);
  assert.deepEqual([10, 15, 20].map(toX), [50, 100, 150]);
});

test("a line is broken where a number is missing", () => {
  assert.equal(
    linePath(null, [1, 2, NaN, 4], (x) => 2 * x, same),
    "M0.0 1.0L2.0 2.0M6.0 4.0",
  );
});

test("points that share a pixel become the first one and their extremes", () => {
  const path = linePath(null, [3, 9, 1, 5, 7], (x) => x / 4, same);
  assert.equal(path, "M0.0 3.0L0.3 9.0L0.5 1.0L1.0 7.0");
});

test("a band runs along its upper line and back along its lower one", () => {
  assert.equal(bandPath([0, 2], [1, 1], [5, 6], same, same), "M0.0 5.0L2.0 6.0L2.0 1.0L0.0 1.0Z");
  assert.equal(bandPath([], [], [], same, same), "");
});

test("the nearest line is that of the nearest height at an x", () => {
  const lines = [
    { key: "a", xs: null, ys: [0, 0, 0] },
    { key: "b", xs: [0, 10, 20], ys: [5, 5, 1] },
  ];
  assert.deepEqual([nearestLine(lines, 0, 4), nearestLine(lines, 2, 0.2), nearestLine([], 0, 0)], ["b", "a", null]);
  assert.deepEqual(
    [-5, 4, 6, 99].map((x) => indexAt([0, 10, 20], 3, x)),
    [0, 0, 1, 2],
  );
});
