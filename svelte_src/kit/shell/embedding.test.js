import assert from "node:assert/strict";
import { test } from "node:test";
import { commonRange, reportIn, timeIn } from "./embedding.js";

test("a scale is that of both pages, or of the page alone", () => {
  const beside = { scales: { "map/2b/value": [-3, 1] }, colors: {} };
  assert.deepEqual(commonRange(beside, "map/2b/value", [0, 2]), [-3, 2]);
  assert.deepEqual(commonRange(beside, "map/3a/value", [0, 2]), [0, 2]);
  assert.deepEqual(commonRange(null, "map/2b/value", [0, 2]), [0, 2]);
});

test("of a message only what has the documented form is read", () => {
  const report = reportIn({
    data: {
      ...{ rlClarity: "report", value: "7", policy: [0.5, 0.5], attribution: [1, null], actions: [1, "<b>"] },
      scales: { good: [0, 1], bad: [0, NaN], short: [1] },
      colors: { good: ["#00ff00"], bad: ["red; background: url(x)"], worse: 3 },
    },
  });
  assert.deepEqual(
    [report.value, report.policy, report.attribution, report.actions],
    [null, [0.5, 0.5], null, ["1", "<b>"]],
  );
  assert.deepEqual([report.scales, report.colors], [{ good: [0, 1] }, { good: ["#00ff00"] }]);
  assert.equal(report.layer, "");
  for (const data of [null, 3, {}, { rlClarity: "clock" }]) assert.equal(reportIn({ data }), null);
  assert.equal(timeIn({ data: { rlClarity: "clock", trajectory: 0, frame: 0.5 } }), null);
});
