import assert from "node:assert/strict";
import { test } from "node:test";
import { mergedActions } from "./actions.js";

test("actions with the same effect are one, the others stay as they are", () => {
  assert.deepEqual(mergedActions(6, [[1, 4, 5]]), [[0], [1, 4, 5], [2], [3]]);
  assert.deepEqual(mergedActions(2), [[0], [1]]);
});
