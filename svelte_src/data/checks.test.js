import assert from "node:assert/strict";
import { test } from "node:test";
import { checkOf } from "./checks.js";

const METHOD = {
  method: "perturbation",
  randomization: [{ rank_correlation: 0.9 }, { rank_correlation: 0.12 }],
  deletion: { above_random: { mean: 0.2, low: 0.1, high: 0.3 } },
  depends_on_parameters: true,
  beats_random: true,
};
const found = (more) => checkOf({ methods: [{ ...METHOD, ...more }] }, "perturbation");

test("checks of a method in words: those of all random weights, and of deletion", () => {
  assert.deepEqual(found({}), {
    text: "They change when all weights are random (rank correlation 0.12). Removing pixels in the maps' order changes the output faster than in a random order (0.20, 0.10 to 0.30).",
    failed: false,
  });
  assert.match(found({ depends_on_parameters: false })?.text ?? "", /stay similar/);
  const similar = [{ rank_correlation: 0.8, signed_rank_correlation: 0.03 }];
  assert.match(
    found({ depends_on_parameters: false, randomization: similar })?.text ?? "",
    /stay similar .* \(rank correlation 0\.80; with signs 0\.030, so the signs were learned\)/,
  );
  assert.match(found({ beats_random: false })?.text ?? "", /no faster/);
  assert.deepEqual(
    [found({ beats_random: false })?.failed, found({ depends_on_parameters: false })?.failed],
    [true, true],
  );
});

test("agents whose weights cannot be set fail only deletion", () => {
  assert.match(found({ randomization: [], depends_on_parameters: false })?.text ?? "", /not compared/);
  assert.equal(found({ randomization: [], depends_on_parameters: false })?.failed, false);
});

test("a method that was not checked has no result", () => {
  assert.equal(checkOf({ methods: [] }, "jacobian"), null);
  assert.equal(checkOf(null, "jacobian"), null);
});
