import assert from "node:assert/strict";
import { test } from "node:test";
import { sortedRows, wholeColumns } from "./table.js";

test("rows are sorted by numbers, then text, missing values last", () => {
  const rows = [{ a: "x10" }, { a: 3 }, { a: null }, { a: "x9" }, { a: -1 }];
  const order = (descending) => sortedRows(rows, "a", descending).map(({ a }) => a);
  assert.deepEqual(order(false), [-1, 3, "x9", "x10", null]);
  assert.deepEqual(order(true), [3, -1, "x10", "x9", null]);
  assert.equal(sortedRows(rows, null), rows);
});

test("rows are sorted by what a function reads of them", () => {
  const rows = [{ x: 1 }, { x: -3 }, { x: 2 }];
  assert.deepEqual(
    sortedRows(rows, ({ x }) => -Math.abs(x)).map(({ x }) => x),
    [-3, 2, 1],
  );
});

test("only columns of whole numbers are shown without decimals", () => {
  const rows = [
    { n: 18, p: 1, name: "a" },
    { n: null, p: 0.5, name: "b" },
  ];
  const columns = ["n", "p", "name"].map((key) => ({ key }));
  assert.deepEqual([...wholeColumns(columns, rows)], ["n", "name"]);
});
