import assert from "node:assert/strict";
import { test } from "node:test";
import {
  causalNumbers,
  clipsWithEvidence,
  contradiction,
  detectable,
  effectBars,
  framePoints,
  measured,
  scaleOf,
  sortedFeatures,
  spread,
} from "./causal.js";

const layer = {
  channels: 2,
  effects: { value: [0.5, -2, 9] },
  ablation: { outputs: { value: { mean: [-0.4, 1], mean_abs: [0.6, 1.5], correlation: [0.9, 0.8] } } },
  behavior: [{ feature: 2, return_difference: -3, interval: [-4, -2] }],
};

test("a feature's numbers are those of its attribution, ablation and behavior", () => {
  const [first, second] = causalNumbers(layer, "value");
  assert.deepEqual(
    [first.attribution, first.lost, first.absolute, first.correlation, first.achieved],
    [0.5, 0.4, 0.6, 0.9, undefined],
  );
  assert.deepEqual([second.achieved, second.interval], [-3, [-4, -2]]);
});

test("effects of all features of a layer share a scale, which contains their spread", () => {
  const outputs = [{ id: "value" }, { id: "action-1" }];
  const spread = { value: [[0, 1], [-5, 1], [-90, 90]] }; // prettier-ignore
  const { bars, limits } = effectBars({ ...layer, effect_spread: spread }, outputs, 0);
  assert.deepEqual(bars, [{ output: outputs[0], value: 0.5, low: 0, high: 1 }]);
  assert.deepEqual(limits, [-5, 1], "the residual is not a feature");
  assert.deepEqual(effectBars(layer, outputs, 1).limits, [-2, 0.5], "pages without a spread");
});

test("a page without ablation has attribution only", () => {
  const numbers = causalNumbers({ channels: 2, effects: { value: [1, 2, 3] } }, "value");
  assert.deepEqual(
    measured(numbers).map(({ key }) => key),
    ["attribution"],
  );
  assert.deepEqual(measured(causalNumbers({ channels: 1, effects: {} }, "value")), []);
  assert.equal(measured(causalNumbers(layer, "value")).length, 3);
});

test("features are sorted by magnitude, or stay in order", () => {
  const numbers = causalNumbers(layer, "value");
  assert.deepEqual(sortedFeatures(numbers, null), [0, 1]);
  assert.deepEqual(sortedFeatures(numbers, "attribution"), [1, 0]);
});

test("points of frames pair a feature's net attribution with what is lost at the same frame", () => {
  const totals = { "totals.value": { data: [1, -0.5, 0, 0, 0, 0, 3, 0, 4, -1, 0, 0], shape: [2, 3, 2] } };
  const ablated = { frames: { data: [1], shape: [1] }, "change.value": { data: [7, 8], shape: [1, 2] } };
  const points = framePoints([{ arrays: ablated }], [{ arrays: totals }], "value", 1);
  assert.deepEqual(Object.fromEntries(Object.entries(points).map(([key, { data }]) => [key, data])), {
    x: [3],
    y: [-8],
    trajectory: [0],
    frame: [1],
  });
});

test("the spread of numbers", () => {
  assert.deepEqual(spread([3, 1, 2, 10]), { median: 2.5, least: 1, largest: 10 });
  assert.equal(spread([]), null);
});

test("attribution and what is lost share a scale; the return has its own", () => {
  const numbers = causalNumbers(layer, "value");
  assert.equal(scaleOf(numbers, "attribution"), 2);
  assert.equal(scaleOf(numbers, "lost"), 2);
  assert.equal(scaleOf(numbers, "achieved"), 4);
});

test("opposite signs, or a factor above 3, contradict; magnitudes that cannot be seen are not compared", () => {
  assert.equal(contradiction({ attribution: 0.5, lost: 0.4 }, 2), null);
  assert.match(contradiction({ attribution: -2, lost: 1 }, 2) ?? "", /opposite signs/);
  assert.match(contradiction({ attribution: 0.2, lost: 1 }, 2) ?? "", /what is lost is more than three times/);
  assert.match(contradiction({ attribution: 1, lost: -0.2 }, 2) ?? "", /attribution is more than three times/);
  assert.equal(contradiction({ attribution: 0.05, lost: -0.05 }, 2), null);
  assert.equal(contradiction({ attribution: 1 }, 2), null, "not tested");
});

test("clips are shown of features whose tests are clear", () => {
  const rows = [
    { layer: "2a", feature: 1, adjusted_p: 1 },
    { layer: "2a", feature: 2, adjusted_p: 0.001 },
  ];
  const clips = [
    { layer: "2a", feature: 1 },
    { layer: "2a", feature: 2 },
  ];
  assert.deepEqual(clipsWithEvidence(clips, rows), [clips[1]]);
});

test("a difference that is found in four of five cases exceeds the corrected interval", () => {
  assert.equal(detectable({ interval: [-1.96, 1.96], corrected_interval: [-3, 3] }), 3 + 0.84);
  assert.equal(detectable({ interval: [0, 0], corrected_interval: [0, 0] }), undefined);
});
