import assert from "node:assert/strict";
import { test } from "node:test";
import { colorLimits, packed, pointColors, scaleColor } from "./palette.js";
import { nearestPoint, paintPoints, pathAround, pointAt, pointsByTrajectory } from "./scatter.js";
import { centralRange, pointsWithin, projection, rectangle, withinBorder } from "./scatter.js";

test("points are found by place", () => {
  const [x, y] = [Float32Array.of(0, 1, 2), Float32Array.of(0, 10, 20)];
  const scale = projection(x, y, 120, 220);
  assert.deepEqual([scale.toX(0), scale.toX(2), scale.toY(0), scale.toY(20)], [10, 110, 210, 10]);
  const [px, py] = [x.map(scale.toX), y.map(scale.toY)];
  assert.equal(nearestPoint(px, py, 62, 108), 1);
  assert.equal(nearestPoint(px, py, 62, 150), -1);
  assert.deepEqual(pointsWithin(px, py, rectangle([120, 0], [50, 120])), [1, 2]);
  const triangle = [
    [50, 100],
    [70, 100],
    [60, 125],
  ];
  assert.deepEqual(pointsWithin(px, py, triangle), [1]);
  assert.deepEqual(
    pointsWithin(px, py, [
      [50, 125],
      [70, 125],
      [70, 100],
    ]),
    [],
    "inside the box around it only",
  );
});

test("the point of a step, or the last one before it", () => {
  const arrays = { trajectory: Int32Array.of(0, 1, 1, 1, 1), frame: Int32Array.of(0, 4, 0, 2, 6) };
  const second = pointsByTrajectory(arrays).get(1);
  assert.deepEqual(second, [2, 3, 1, 4]);
  assert.deepEqual(
    [0, 1, 3, 4, 9].map((frame) => pointAt(second, arrays.frame, frame)),
    [2, 2, 3, 1, 4],
  );
  assert.equal(pointAt([1], arrays.frame, 0), -1);
  assert.equal(pointAt(undefined, arrays.frame, 0), -1);
  const times = Float32Array.of(0, 0, 0, 2, 2); // an episode begins at frame 4
  assert.deepEqual(pathAround(second, times, 2), [2, 3]);
  assert.deepEqual(pathAround(second, times, 4), [1, 4]);
  assert.deepEqual(pathAround(second, undefined, 4), second);
  assert.deepEqual(pathAround(undefined, times, -1), []);
});

test("marked points are painted above faint ones, and nothing outside", () => {
  const pixels = new Uint32Array(8 * 6);
  const [red, green] = [packed([255, 0, 0]), packed([0, 255, 0])];
  const points = { px: [2, 2, -1, 7.4], py: [2, 2, 0, 5.6], colors: Uint32Array.of(red, green, red, red), radius: 1 };
  paintPoints(pixels, 8, { ...points, marked: Uint8Array.of(1, 0, 0, 0) });
  assert.equal(pixels[2 * 8 + 2], red);
  assert.equal(pixels[0], 0x2e0000ff, "the edge of a point beyond the left");
  assert.equal(pixels[5 * 8 + 7], 0x2e0000ff);
  assert.equal(pixels[2 * 8 + 4], 0);
  paintPoints(pixels, 8, { ...points, marked: null });
  assert.equal(pixels[2 * 8 + 2], green, "the last one is on top");
});

test("numbers have a scale without its extremes, categories have hues", () => {
  const values = Float32Array.from({ length: 201 }, (_, i) => i);
  values[200] = 1e6;
  assert.deepEqual(colorLimits(values), [2, 198]);
  assert.deepEqual(colorLimits(Float32Array.of(0, 0, 0, 5)), [0, 5]);
  assert.deepEqual(colorLimits(Float32Array.of(3, NaN)), [3, 3]);
  const colors = pointColors(values, "number", "light");
  assert.equal(colors[0], packed(scaleColor(0, "light")));
  assert.equal(colors[200], packed(scaleColor(1, "light")));
  assert.deepEqual(
    [...pointColors(Float32Array.of(NaN, NaN), "number", "dark")],
    Array(2).fill(packed(scaleColor(0, "dark"))),
  );
  const hues = pointColors(Int32Array.of(0, 1, 0), "category", "light");
  assert.equal(hues[0], packed([0xe6, 0x9f, 0x00]));
  assert.equal(hues[0], hues[2]);
  assert.notEqual(hues[0], hues[1]);
  const own = pointColors(Int32Array.of(1, 0), "category", "light", ["#010203", "#040506"]);
  assert.deepEqual([...own], [packed([4, 5, 6]), packed([1, 2, 3])]);
});

test("distant points are moved to the border of the others", () => {
  const near = Float32Array.from({ length: 101 }, (_, i) => i);
  assert.deepEqual(centralRange(near), [0, 100], "without distant points the range is that of all");
  const far = Float32Array.of(-1000, ...near.slice(1, 100), 1000);
  assert.deepEqual(centralRange(far), [-85, 185], "nine tenths of the points are 90 apart");
  assert.deepEqual(centralRange(Float32Array.of(2, 2, 5)), [2, 5]);
  const { axes, distant } = withinBorder([far, near]);
  assert.equal(distant, 2);
  assert.deepEqual(axes, [Float32Array.of(-85, ...near.slice(1, 100), 185), near]);
});

test("what is in no category is grey", () => {
  const grey = packed([154, 154, 154]);
  assert.deepEqual(
    [...pointColors(Int32Array.of(-1, 16, 0), "category", "light")],
    [grey, ...pointColors(Int32Array.of(0, 0), "category", "light")],
  );
});
