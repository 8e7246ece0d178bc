import assert from "node:assert/strict";
import { test } from "node:test";
import { panelNamed } from "./address.js";

test("a panel is found by its name, or by one of before", () => {
  const named = (name) => panelNamed(["trust", "feature"], { features: "feature" }, name);
  assert.deepEqual(["trust", "features", "constructor", ""].map(named), ["trust", "feature", null, null]);
});
