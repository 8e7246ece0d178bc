import assert from "node:assert/strict";
import { test } from "node:test";
import { channelColors, textOn } from "../kit/image/colors.js";
import { factRows, formatNumber, formatPercent, outputName, toCsv } from "../kit/shell/format.js";
import { chosenLength, length, ratio } from "../kit/shell/sizes.js";
import { memoized } from "./cache.js";
import {
  channelSeries,
  completenessErrors,
  episodeAround,
  histogram,
  outputSeries,
  polylines,
  pushMean,
  quantile,
  rangeOf,
  stackedEdges,
  totalsAt,
} from "./series.js";

test("numbers have a true minus and few figures", () => {
  assert.equal(formatNumber(-0.027712), "\u22120.0277");
  assert.equal(formatNumber(1234.5), "1230");
  assert.equal(formatNumber(0), "0");
  assert.equal(formatNumber(0.00001234), "1.23e-5");
  assert.equal(formatNumber(NaN), "\u2013");
  assert.equal(formatPercent(0.034), "3.4\u202f%");
  assert.equal(formatPercent(0.34), "34\u202f%");
});

test("outputs are named by what they are", () => {
  assert.equal(outputName({ kind: "value", label: "value function" }), "value function");
  assert.equal(outputName({ kind: "action", label: "→" }), "action →");
  assert.equal(outputName({ kind: "action", label: "action 1: mean" }), "action 1: mean");
  assert.equal(outputName({ kind: "group", label: "RIGHT" }), "actions with RIGHT");
});

const LOGITS = { data: Float32Array.of(1, 2, 3, 6, 5, 4), shape: [2, 3] };

test("an output's numbers come from the series that holds them", () => {
  const arrays = { logits: LOGITS, values: { data: Float32Array.of(7, 8), shape: [2] } };
  assert.deepEqual(Array.from(outputSeries(arrays, { kind: "value" })), [7, 8]);
  assert.deepEqual(Array.from(outputSeries(arrays, { kind: "action", action: 1 })), [2, 5]);
  assert.deepEqual(Array.from(outputSeries(arrays, { kind: "greedy" })), [3, 6]);
  assert.equal(outputSeries(arrays, { kind: "group", group: 0 }), null);
  assert.equal(outputSeries({}, { kind: "value" }), null);
});

test("graphs are broken at episodes", () => {
  const values = [0, 1, 2, 3, 4];
  assert.deepEqual(polylines(values, [1, 0, 0, 1, 0], 0, 4, 5), [
    [0, 0, 1, 1, 2, 2],
    [3, 3, 4, 4],
  ]);
});

test("unknown values leave gaps, and do not join episodes", () => {
  const values = [0, NaN, 2, NaN, 4, NaN];
  const broken = [
    [0, 0, 2, 2],
    [4, 4],
  ];
  assert.deepEqual(polylines(values, [1, 0, 0, 1, 0, 0], 0, 5, 5), broken);
  assert.deepEqual(polylines(values, [1, 0, 0, 1, 0, 0], 0, 5, 0.1), broken, "several steps in a pixel");
  assert.deepEqual(polylines([NaN, NaN], [1, 0], 0, 1, 0.1), []);
});

test("a graph of many steps keeps every extreme and few points", () => {
  const values = Array.from({ length: 4096 }, (_, t) => Math.sin(t / 3) + (t === 2000 ? 9 : 0) - (t === 3001 ? 9 : 0));
  const [line] = polylines(values, new Uint8Array(4096), 0, 4095, 0.1);
  const heights = line.filter((_, i) => i % 2 === 1);
  assert.equal(Math.max(...heights), Math.max(...values));
  assert.equal(Math.min(...heights), Math.min(...values));
  assert.ok(line.length / 2 <= 2 * 410);
  const steps = line.filter((_, i) => i % 2 === 0);
  assert.deepEqual(
    steps,
    [...steps].sort((a, b) => a - b),
  );
});

test("episodes", () => {
  const firsts = [1, 0, 0, 1, 0];
  assert.deepEqual(episodeAround(firsts, 1), { first: 0, last: 2 });
  assert.deepEqual(episodeAround(firsts, 4), { first: 3, last: 4 });
});

test("ranges never vanish", () => {
  assert.deepEqual(rangeOf([3, 3]), [2.5, 3.5]);
  assert.deepEqual(rangeOf([]), [0, 1]);
  assert.deepEqual(rangeOf([-1, 4]), [-1, 4]);
});

test("probabilities stack to one", () => {
  assert.deepEqual(stackedEdges(Float32Array.of(0, 0, 0.25, 0.75), 2, 1), [0, 0.25, 1]);
});

const TOTALS = { data: Float32Array.of(1, -2, 3, 0, 10, -20, 30, 0), shape: [2, 2, 2] };

test("totals of a step and of a channel", () => {
  assert.deepEqual(totalsAt(TOTALS, 1), [
    { positive: 10, negative: -20 },
    { positive: 30, negative: 0 },
  ]);
  assert.deepEqual(Array.from(channelSeries(TOTALS, 0)), [-1, -10]);
  for (const k of [-1, TOTALS.shape[1], NaN]) assert.equal(channelSeries(TOTALS, k), null);
});

test("the completeness error is relative to the typical difference of the score", () => {
  const decomposition = { baseline: [1, 3], memory: [0, 1], completeness_error: [1, -2], output: [3, 2] };
  assert.deepEqual(Array.from(completenessErrors(decomposition)), [0.5, 1]);
});

test("memoized functions compute once for each object and key", () => {
  let calls = 0;
  const square = memoized((numbers, power = 2) => {
    calls += 1;
    return numbers.map((x) => x ** power);
  });
  const numbers = [1, 2];
  assert.equal(square(numbers), square(numbers));
  assert.deepEqual(square(numbers, 3), [1, 8]);
  assert.deepEqual(square([1, 2]), [1, 4]);
  assert.equal(calls, 3);
});

test("quantiles and histograms", () => {
  assert.equal(quantile([5, 1, 3], 0.5), 3);
  assert.deepEqual(histogram([0, 0.1, 0.26, 0.99, 7], 1, 4), [2, 1, 0, 2]);
});

test("cells with commas, quotes and line ends are quoted", () => {
  assert.equal(
    toCsv([
      ["a", 'b"c'],
      [1, "x,y\nz"],
      [null, undefined],
    ]),
    'a,"b""c"\r\n1,"x,y\nz"\r\n,\r\n',
  );
});

test("text on a color is readable", () => {
  assert.equal(textOn("#303030"), "#ffffff");
  assert.equal(textOn("#efefef"), "#000000");
  assert.equal(textOn("#ffff00"), "#000000");
  assert.equal(textOn("#0000ff"), "#ffffff");
});

test("the second palette changes channels, not an input's own colors", () => {
  const layer = {
    kind: "layer",
    colors: ["#ff0000", "#00ff00"],
    hues: [
      [1, 0, 0],
      [0, 1, 0],
    ],
  };
  assert.deepEqual(channelColors(layer, "standard")[1], { color: "#00ff00", hue: [0, 1, 0] });
  const safe = channelColors(layer, "safe");
  assert.notEqual(safe[0].color, "#ff0000");
  assert.ok(Math.abs(Math.hypot(...safe[1].hue) - 1) < 1e-12);
  assert.equal(channelColors({ ...layer, kind: "input" }, "safe")[0].color, "#ff0000");
});

test("sizes are lengths, and defaults leave it to the layout", () => {
  assert.equal(length({ video_width: "20em" }, "video_width"), "20rem");
  assert.equal(length({ video_width: "1px; background: red" }, "video_width"), "16rem");
  assert.equal(chosenLength({ navigator_width: "24em" }, "navigator_width"), null);
  assert.equal(chosenLength({ navigator_width: "300px" }, "navigator_width"), "300px");
  assert.equal(ratio("20rem", "10rem", 3), 2);
  assert.equal(ratio("16rem", "16rem", 1.5), 1.5);
  assert.equal(ratio("20rem", "100px", 1.5), 1.5);
});

test("what a page was made with is rows: entries of dictionaries under their name, lists in words", () => {
  const items = [
    ["name", "coinrun"],
    ["layer_kwargs", '{"first": 0, "inner": {"ops": ["relu", null]}, "nothing": {}}'],
    ["range", "[0.5, 1.0]"],
    ["broken", "{a"],
  ];
  const rows = factRows(items).map(({ name, value, depth }) => `${"  ".repeat(depth)}${name}: ${value}`);
  assert.deepEqual(rows, [
    "name: coinrun",
    "layer_kwargs: ",
    "  first: 0",
    "  inner: ",
    "    ops: relu, none",
    "  nothing: none",
    "range: 0.5, 1",
    "broken: {a",
  ]);
  const deep = factRows([["deep", '{"a": {"b": {"c": {"d": 1}}}}']]);
  assert.deepEqual(deep.at(-1), { name: "c", value: '{"d":1}', depth: 3 });
});

test("the mean of the steps that share a pixel, broken where an episode begins", () => {
  const lines = polylines([1, 3, 5, NaN, 10, 20], [1, 0, 0, 0, 1, 0], 0, 5, 0.5, pushMean);
  assert.deepEqual(lines, [
    [0.5, 2, 2.5, 5],
    [4.5, 15],
  ]);
});
