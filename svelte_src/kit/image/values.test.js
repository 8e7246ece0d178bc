import assert from "node:assert/strict";
import { test } from "node:test";
import { makeGrey } from "./grey.js";
import { drawMarks } from "./marks.js";
import { decodeValue, frameOwnScale, frameValues, valuesAt } from "./values.js";

test("a code is a signed square root", () => {
  assert.equal(decodeValue(127, 2), 2);
  assert.equal(decodeValue(-127, 2), -2);
  assert.ok(Math.abs(decodeValue(-64, 2) + 2 * (64 / 127) ** 2) < 1e-12);
  assert.deepEqual(valuesAt({ data: Float32Array.of(0, 0, 3, -3), depth: 2 }, 1), [3, -3]);
});

test("a frame's own scale is its largest signed value, or the largest of all where none is positive", () => {
  const scaleOf = (...data) => frameOwnScale({ data: Float32Array.from(data), depth: 3 }, 2);
  assert.equal(scaleOf(2, -1, 1.5, 0.5, 1, -9), 2);
  assert.equal(scaleOf(-2, -1, 9), 2);
  assert.equal(scaleOf(0, 0, 9), 1);
});

test("values of frames are decoded, and those of several chunks added, each times its weight", () => {
  const chunk = (...list) => ({
    arrays: { codes: { data: Int8Array.from(list), shape: [2, 1, 1, 2] }, scales: { data: Float32Array.of(1, 2) } },
  });
  const parts = [
    { chunk: chunk(0, 0, 127, -127), weight: 1 },
    { chunk: chunk(0, 0, 127, 0), weight: -0.5 },
  ];
  assert.deepEqual(Array.from(frameValues(parts, 1).data), [1, -2]);
});

test("marks are a hatch whose opacity is the amount of the residual, and dots where the scale is exceeded", () => {
  const residual = Float32Array.of(0.5, 0, 0, 0);
  const { height, width, rgba } = drawMarks({ height: 2, width: 2, residual, clipped: [3] });
  assert.deepEqual([height, width], [256, 256]);
  const alphaAt = (x, y) => rgba[4 * (y * width + x) + 3];
  const opacities = Array.from({ length: 128 }, (_, x) => alphaAt(x, 0));
  assert.deepEqual([...new Set(opacities)].sort(), [0, 128], "lines, and gaps that show what is below");
  assert.equal(alphaAt(200, 10), 0);
  assert.equal(alphaAt(192, 192), 255);

  const later = drawMarks({ height: 2, width: 2, residual: new Float32Array(4), clipped: [] }, { rgba });
  assert.equal(later.rgba, rgba, "its memory is used again");
  assert.ok(later.rgba.every((byte) => byte === 0));
});

test("grey is luma", () => {
  const rgba = Uint8ClampedArray.of(255, 0, 0, 9, 0, 255, 0, 8);
  makeGrey(rgba);
  assert.deepEqual(Array.from(rgba), [76, 76, 76, 9, 150, 150, 150, 8]);
  makeGrey(rgba, true);
  assert.deepEqual(Array.from(rgba), [81, 81, 81, 9, 111, 111, 111, 8]);
});
