// What Trust says of measured effects.
import assert from "node:assert/strict";
import { test } from "node:test";
import { agreementText, baselineText } from "./agreement.js";

const LAYER = { key: "2b", name: "2b" };
const number = (value, low = null, high = null) => ({ value, low, high });
const agreement = (signs, correlation = number(0.875, 0.8, 0.92)) => ({
  output: "value",
  count: 341,
  large: 125,
  episodes: 16,
  threshold: 0.45,
  layers: [{ layer: "2b", signs, correlation, magnitudes: number(0.5) }],
});

test("the share of right signs with its interval, and the correlation", () => {
  assert.equal(
    agreementText(agreement(number(0.93, 0.9, 0.96)), LAYER),
    "Attribution at 2b has the same sign as the measured effect for 93\u202f% (90 to 96) of the 125 objects that change the output by more than 0.45. The correlation with the effects is 0.88 (0.80 to 0.92).",
  );
});

test("negative numbers have a minus sign", () => {
  assert.match(
    agreementText(agreement(number(0.9), number(0.41, -0.114, 0.85)), LAYER),
    / is 0\.41 \(\u22120\.11 to 0\.85\)\.$/,
  );
});

test("effects in a single episode have no interval", () => {
  const text = agreementText(agreement(number(0.93), number(0.5)), LAYER);
  assert.match(text, /of the 125 objects that change .* is 0\.50\.$/);
});

test("with too few large effects there is no share", () => {
  assert.match(agreementText(agreement(number(null)), LAYER), /^125 of 341 measured objects .* too few/);
});

test("without effects, or for another layer, it is not known", () => {
  for (const text of [agreementText(null, LAYER), agreementText(agreement(number(1)), { key: "3a", name: "3a" })]) {
    assert.match(text, /is not known for this agent.*docs\/truth\.md/);
  }
});

const choice = (chosen) => ({
  chosen,
  layer: "1a",
  count: 412,
  large: 60,
  episodes: 20,
  candidates: [
    { baseline: "blur", correlation: 0.68, signs: 0.93, advantage: null },
    { baseline: "zero-input", correlation: 0.88, signs: 0.96, advantage: [0.072, 0.15] },
  ],
});

test("which baseline was chosen, why, and by how much", () => {
  assert.equal(
    baselineText(choice("zero-input")),
    "The baseline, an image of zeros, was chosen with the measured effects of 412 objects in 20 other episodes. At 1a, the correlation with these effects is 0.88, and 96\u202f% of the signs are right. With the blurred observation, it is 0.68, and 93\u202f% are right. The mean of the two numbers is higher by 0.07 to 0.15.",
  );
  assert.match(
    baselineText(choice("blur")),
    /^The baseline, the blurred observation, .*: no other baseline .* clearly better\.$/,
  );
  assert.equal(baselineText(null), "");
});
