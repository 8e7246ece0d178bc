import assert from "node:assert/strict";
import { test } from "node:test";
import { differences, distinctTitle, matchedPairs, rightColors } from "./differences.js";

const MATCHES = { "2b": [{ number: 2, similarity: 0.9 }, null, { number: 1, similarity: 0.8 }] };
const LEFT = {
  ...{ layer: "2b", layerName: "layer 2b", output: "value", outputName: "value", value: 2, actions: ["a", "b", "c"] },
  ...{ policy: [0.5, 0.3, 0.2], attribution: [1, 2, 3], lost: [0.5, 0, 1], lostFrame: 4, scales: {} },
  colors: { "2b": ["#ff0000", "#00ff00", "#0000ff"] },
};
const RIGHT = { ...LEFT, value: 1.5, policy: [0.1, 0.3, 0.6], attribution: [4, 1, 9], lost: null };

test("titles that several pages have name the directory", () => {
  const pages = ["a", "b", "c"].map((folder, i) => ({ folder, title: i ? "Same" : "Other" }));
  assert.deepEqual(
    pages.map((page) => distinctTitle(pages, page)),
    ["Other", "Same (b)", "Same (c)"],
  );
});

test("features of the right page have the colors of those that they match, and others colors unlike any of the left", () => {
  const colors = rightColors(LEFT.colors, RIGHT.colors, MATCHES)["2b"];
  assert.deepEqual(colors.slice(0, 2), ["#0000ff", "#ff0000"]);
  assert.equal(LEFT.colors["2b"].includes(colors[2]), false);
  const many = rightColors(
    { "2b": LEFT.colors["2b"] },
    { "2b": Array(8).fill("#ff0000") },
    { "2b": [null, null, null] },
  );
  assert.equal(new Set([...many["2b"], ...LEFT.colors["2b"]]).size, 11);
  assert.deepEqual(rightColors(LEFT.colors, RIGHT.colors, undefined), {});
});

test("differences are those of the right page, of features that match", () => {
  const found = differences(LEFT, RIGHT, MATCHES);
  assert.deepEqual(found.output, [2, 1.5, -0.5]);
  assert.deepEqual(
    found.features.map(({ left, right, attribution, lost }) => [left, right, attribution, lost]),
    [
      [0, 1, [1, 1, 0], null],
      [2, 0, [3, 4, 1], null],
    ],
  );
  assert.ok(Math.abs(found.policy.variation - 0.4) < 1e-12);
  assert.deepEqual(
    found.policy.actions.map(({ label }) => label),
    ["a", "c", "b"],
  );
});

test("what is lost without a feature is compared at the same step", () => {
  const lost = (frame) => differences(LEFT, { ...RIGHT, lost: [1, 1, 1], lostFrame: frame }, MATCHES).features[0].lost;
  assert.deepEqual([lost(4), lost(0)], [[0.5, 1, 0.5], null]);
});

test("numbers of other outputs, layers and actions are not compared", () => {
  assert.deepEqual(differences(LEFT, { ...RIGHT, output: "action-1" }, MATCHES).output, null);
  assert.deepEqual(differences(LEFT, { ...RIGHT, output: "action-1" }, MATCHES).features, []);
  assert.deepEqual(differences(LEFT, { ...RIGHT, layer: "3a" }, MATCHES).features, []);
  assert.equal(differences(LEFT, { ...RIGHT, actions: ["a", "b", "d"] }, MATCHES).policy, null);
  assert.deepEqual(matchedPairs(undefined, "2b"), []);
});
