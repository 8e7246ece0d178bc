import assert from "node:assert/strict";
import { test } from "node:test";
import {
  channelDecomposition,
  coverage,
  stackEnds,
  stackRange,
  unexplainedParts,
  varianceShares,
  waterfall,
  waterfallRange,
} from "./decomposition.js";
import { drawStack } from "./stack.js";

const list = (...numbers) => Float64Array.from(numbers);

/** Two steps, two features. */
const DECOMPOSITION = {
  baseline: list(5, 5.5),
  features: [list(2, 1), list(-3, 0)],
  residual: list(0.5, -0.25),
  memory: list(0, 0.5),
  completeness_error: list(0.25, 0),
  output: list(4.75, 6.75),
};

test("steps of a waterfall begin where the last one ended, and lead to the output", () => {
  const steps = waterfall(DECOMPOSITION, 0);
  assert.deepEqual(
    steps.map(({ name, from, to }) => [name, from, to]),
    [
      ["feature-1", 0, 2],
      ["feature-2", 2, -1],
      ["residual", -1, -0.5],
      ["memory", -0.5, -0.5],
      ["completeness_error", -0.5, -0.25],
    ],
  );
  assert.deepEqual(
    steps.map(({ channel }) => channel),
    [0, 1, 2, undefined, undefined],
  );
  assert.equal(DECOMPOSITION.baseline[0] + steps.at(-1).to, DECOMPOSITION.output[0]);
});

test("the scale of waterfalls is that of all levels along the trajectory", () => {
  assert.deepEqual(waterfallRange(DECOMPOSITION), [-1, 2]);
  const zeros = list(0, 0);
  const rare = {
    ...DECOMPOSITION,
    features: [list(2, 50), list(-3, 0)],
    residual: zeros,
    memory: zeros,
    completeness_error: zeros,
  };
  assert.deepEqual(waterfallRange(rare), [-1, 50]);
  assert.deepEqual(waterfallRange({ ...rare, features: [zeros, zeros] }), [-0.5, 0.5]);
});

test("a stack has what raises the output above the baseline, and what lowers it below", () => {
  const { raised, lowered } = stackEnds(DECOMPOSITION);
  assert.deepEqual(Array.from(raised), [2.75, 1.5]);
  assert.deepEqual(Array.from(lowered), [-3, -0.25]);
  assert.deepEqual(stackRange(DECOMPOSITION), [2, 7.75]);
});

test("a stack is drawn with every part where it begins, the parts that are not alone faintly", () => {
  const drawn = [];
  const context = {
    globalAlpha: 1,
    fillRect: (...box) => drawn.push([context.fillStyle, context.globalAlpha, ...box]),
    createPattern: () => "hatch",
    setLineDash() {},
    beginPath() {},
    moveTo() {},
    lineTo() {},
    stroke() {},
  };
  globalThis.document = { createElement: () => ({ getContext: () => context }) };
  const view = { frame: 0, center: 0.5, visible: 2, width: 20, height: 29, steps: 2 };
  const tokens = { ink: "ink", line: "line" };
  drawStack(context, view, { decomposition: DECOMPOSITION, colors: ["red", "blue"], alone: 1, tokens });
  const before = drawn.length;
  drawStack(context, view, {
    decomposition: DECOMPOSITION,
    colors: ["red", "blue"],
    incomplete: [true, false],
    tokens,
  });
  delete globalThis.document;
  const later = drawn.splice(before);
  assert.deepEqual(
    later.map(([color, , x]) => [color, x]),
    ["red", "blue", "hatch", "ink", "line"].flatMap((color) => [
      ["hatch", 0],
      [color, 10],
    ]),
    "a step whose error is too large has no colors",
  );
  const at = (fill) => drawn.filter(([color]) => color === fill);
  assert.deepEqual(at("red")[0], ["red", 0.15, 0, 6, 10, 8], "a unit is four pixels: from 5 up to 7");
  assert.deepEqual(at("blue")[0], ["blue", 1, 0, 14, 10, 12], "from 5 down to 2");
  assert.deepEqual(at("hatch")[0].slice(2), [0, 4, 10, 2], "above the first feature");
});

test("the share of variance is 1 where attribution follows the output, 0 where it says nothing", () => {
  const zeros = list(0, 0, 0);
  const follows = { output: list(1, 2, 3), baseline: list(1, 1, 1), memory: zeros, completeness_error: zeros };
  assert.equal(varianceShares(follows).explained, 1);
  assert.equal(varianceShares({ ...follows, memory: list(0, 1, 2) }).explained, 0);
  assert.ok(varianceShares({ ...follows, completeness_error: list(-2, 0, 2) }).explained < 0);
  assert.equal(varianceShares({ ...follows, output: list(1, 1, 1) }), null);
});

test("the rest of the variance is due to memory, the baseline and the error, and adds up", () => {
  const { explained, ...rest } = varianceShares(DECOMPOSITION);
  assert.ok(Math.abs(explained + rest.memory + rest.baseline + rest.completeness_error - 1) < 1e-12);
  assert.deepEqual(
    unexplainedParts({}, rest).map(([name]) => name),
    ["memory", "baseline", "completeness error"],
  );
  assert.deepEqual(unexplainedParts({ bypassed: true }, { memory: 0.001, baseline: -0.2 }), [
    ["baseline and paths around the layer", -0.2],
  ]);
});

test("coverage is the share of the sizes of features in those of all parts of attribution", () => {
  assert.equal(coverage({ features: [list(2, 1), list(-3, 0)], residual: list(0.5, -1.5) }), 0.75);
  assert.equal(coverage({ features: [list(0)], residual: list(0) }), null);
});

test("the input has no baseline: its channels add up to a sum", () => {
  const decomposition = channelDecomposition({ data: Float32Array.of(1, -0.5, 2, 0, 0, -4, 1, 0), shape: [2, 2, 2] });
  assert.deepEqual(Array.from(decomposition.output), [2.5, -3]);
  assert.deepEqual(Array.from(decomposition.features[1]), [2, 1]);
});
