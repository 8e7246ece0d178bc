import assert from "node:assert/strict";
import { test } from "node:test";
import { drawHeat } from "./heat.js";
import {
  axisPositions,
  axisScale,
  countLines,
  lineAlpha,
  linePositions,
  nearestStep,
  paintLayers,
  SIDE,
} from "./lines.js";
import { axisText, moved, movedBy } from "./order.js";
import { numbersTable, tableCells } from "./table.js";

const AXES = [
  { key: "step", range: [0, 2] },
  { key: "value", range: [0, 10] },
];
const COLUMNS = { step: [0, 1, 2], value: [0, 10, NaN] };

test("axes are apart by equal distances, and their scales go both ways", () => {
  assert.deepEqual(axisPositions(3, 2 * SIDE + 100), [SIDE, SIDE + 50, SIDE + 100]);
  assert.deepEqual(axisPositions(1, 2 * SIDE + 100), [SIDE + 50]);
  const { toY, toValue } = axisScale([-1, 3], 100);
  for (const value of [-1, 0, 3]) assert.ok(Math.abs(toValue(toY(value)) - value) < 1e-9);
  assert.ok(toY(3) < toY(-1), "large numbers are at the top");
});

test("a line crosses each column of pixels once, or a whole run of them where it is steep", () => {
  const size = { width: 10, height: 8 };
  const counts = countLines(Float32Array.of(0, 0, 7, 0, 3, NaN), [2, 6], size);
  const columns = Array.from({ length: 10 }, (_, x) =>
    Array.from({ length: 8 }, (_row, y) => counts[y * 10 + x]).reduce((sum, count) => sum + count, 0),
  );
  assert.deepEqual(columns.slice(0, 2), [0, 0]);
  assert.deepEqual(columns.slice(6), [0, 0, 0, 0]);
  assert.deepEqual([counts[2], counts[3], counts[5]], [1, 1, 2], "the flat line, and the end of the steep one");
  assert.ok(
    columns.slice(2, 6).every((count) => count >= 2),
    "the line without a number is left out",
  );
  assert.deepEqual(
    [...countLines(Float32Array.of(0, 0, 7, 7), [2, 6], size, Uint8Array.of(0, 1))].slice(0, 10),
    Array(10).fill(0),
  );
});

test("counts of a mask become those of another", () => {
  const size = { width: 10, height: 8 };
  const positions = Float32Array.of(0, 7, 7, 0, 3, 3, 2, 6);
  const first = Uint8Array.of(1, 1, 0, 1);
  const next = Uint8Array.of(0, 1, 1, 1);
  const held = { mask: first, counts: countLines(positions, [2, 6], size, first) };
  const counts = countLines(positions, [2, 6], size, next, held);
  assert.deepEqual(counts, countLines(positions, [2, 6], size, next));
  assert.ok(counts === held.counts, "only lines that changed are counted");
});

test("pixels that more lines cross are more opaque, and upper layers cover lower ones", () => {
  const size = { width: 3, height: 1 };
  const layer = { counts: Uint16Array.of(0, 1, 2), color: [255, 0, 0], alpha: 0.5 };
  assert.deepEqual([...paintLayers([layer], size)], [0, 0, 0, 0, 255, 0, 0, 128, 255, 0, 0, 191]);
  const above = { counts: Uint16Array.of(0, 0, 9), color: [0, 0, 255], alpha: 1 };
  assert.deepEqual([...paintLayers([layer, above], size).slice(8)], [0, 0, 255, 255]);
  assert.ok(lineAlpha(5000) < lineAlpha(50));
});

test("positions of lines, and the nearest one to a pixel", () => {
  const positions = linePositions(COLUMNS, AXES, 100);
  assert.ok(Number.isNaN(positions[5]));
  const xs = [0, 100];
  const top = axisScale([0, 1], 100).toY(1);
  assert.equal(nearestStep(positions, xs, { x: 99, y: top }).step, 1);
  assert.equal(nearestStep(positions, xs, { x: 99, y: top }, Uint8Array.of(1, 0, 1)).step, 0);
});

test("an axis is moved to where it was dropped, or by a place", () => {
  const axes = ["a", "b", "c"].map((key) => ({ key }));
  assert.deepEqual(moved(axes, "a", [0, 10, 20], 15), ["b", "a", "c"]);
  assert.deepEqual(moved(axes, "c", [0, 10, 20], -5), ["c", "a", "b"]);
  assert.deepEqual(movedBy(axes, "b", 1), ["a", "c", "b"]);
  assert.deepEqual(movedBy(axes, "a", -1), ["a", "b", "c"]);
  assert.deepEqual([axisText({ key: "step" }, 4), axisText({ key: "value" }, -0.5)], ["5", "\u22120.500"]);
});

test("the heat map is as strong as the share, from one map to the next", () => {
  const rectangles = [];
  const context = {
    fillRect(...box) {
      rectangles.push([this.fillStyle, ...box.map(Math.round)]);
    },
  };
  const view = { width: 40, height: 20, center: 1.5, visible: 4, steps: 4 };
  drawHeat(context, view, { surface: "#ffffff", mark: "#000000" }, [[1, 0.5]], [0, 2]);
  assert.deepEqual(rectangles, [
    ["rgb(0, 0, 0)", 0, 0, 21, 20],
    ["rgb(128, 128, 128)", 20, 0, 21, 20],
  ]);
});

test("the table has means of shares, and no columns that no checkpoint has", () => {
  const method = { name: "m", centers: { rows: [0.5], columns: [0.25, 0.75] } };
  const codes = { data: Uint8Array.of(3, 1, 0, 9), shape: [2, 1, 2] };
  const maps = { arrays: { steps: { data: [0, 1] }, "codes.policy": codes } };
  const checkpoints = [
    {
      index: 0,
      name: "first",
      step: null,
      action_shares: [0.5, 0.5],
      totals: { policy: 2 },
      manifest: { actions: [{ label: "left" }, { label: "right" }] },
      saliency: { methods: [method] },
    },
  ];
  const regions = { rows: 1, columns: 2, boxes: [], names: {} };
  const table = numbersTable({ checkpoints, unit: "steps" }, { regions, method: "m" }, [{ maps }]);
  const [header, cells] = tableCells(table);
  assert.deepEqual(header, [
    "Checkpoint",
    "entropy of left",
    "entropy of right",
    "total saliency, policy",
    "left, policy",
    "right, policy",
  ]);
  assert.equal(cells[1], 0.5 * Math.log(2));
  assert.deepEqual(cells.slice(3), [2, 0.375, 0.625]);
});
