import assert from "node:assert/strict";
import { test } from "node:test";
import { nearestPoint, pointsWithin, projection } from "../scatter/scatter.js";
import { sortedRows } from "./table.js";

test("rows are sorted by numbers, then text, missing values last", () => {
  const rows = [{ a: "x10" }, { a: 3 }, { a: null }, { a: "x9" }, { a: -1 }];
  const order = (descending) => sortedRows(rows, "a", descending).map(({ a }) => a);
  assert.deepEqual(order(false), [-1, 3, "x9", "x10", null]);
  assert.deepEqual(order(true), [3, -1, "x10", "x9", null]);
  assert.equal(sortedRows(rows, null), rows);
});

test("points are found by place", () => {
  const [x, y] = [Float32Array.of(0, 1, 2), Float32Array.of(0, 10, 20)];
  const scale = projection(x, y, 120, 220);
  assert.deepEqual([scale.toX(0), scale.toX(2), scale.toY(0), scale.toY(20)], [10, 110, 210, 10]);
  assert.equal(nearestPoint(x, y, scale, 62, 108), 1);
  assert.equal(nearestPoint(x, y, scale, 62, 150), -1);
  assert.deepEqual(pointsWithin(x, y, scale, { x0: 120, y0: 0, x1: 50, y1: 120 }), [1, 2]);
});
