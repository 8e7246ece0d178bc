import assert from "node:assert/strict";
import { test } from "node:test";
import { composeImage, decodeValue, frameOwnScale, makeGrey, spread, valuesAt } from "./compose.js";

const HUES = [
  [1, 0, 0],
  [0, Math.SQRT1_2, Math.SQRT1_2],
];

/** One frame of 3 x 4 positions, two channels and the residual; what is not named is 0. */
function frame(entries) {
  const codes = new Int8Array(3 * 4 * 3);
  for (const [position, channel, code] of entries) codes[position * 3 + channel] = code;
  return {
    values: { codes, depth: 3, frameScale: 2 },
    grid: { height: 3, width: 4 },
    scale: 4,
    hues: HUES,
    sign: "pos",
    chosen: [0, 1],
    residual: false,
    smooth: false,
  };
}

const pixel = (image, position) => Array.from(image.premultiplied().subarray(4 * position, 4 * position + 4));
const near = (actual, expected) =>
  actual.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) < 1e-6, `${actual} is not ${expected}`));

test("a code is a signed square root", () => {
  assert.equal(decodeValue(127, 2), 2);
  assert.equal(decodeValue(-127, 2), -2);
  assert.ok(Math.abs(decodeValue(-64, 2) + 2 * (64 / 127) ** 2) < 1e-12);
  assert.deepEqual(valuesAt(Int8Array.of(0, 0, 127, -127), 2, 1, 3), [3, -3]);
});

test("a channel is weighted by its hue, brightness becomes opacity", () => {
  near(pixel(composeImage(frame([[5, 1, 127]])), 5), [0, 0.5 * Math.SQRT1_2, 0.5 * Math.SQRT1_2, 0.5]);
});

test("signs show the positive part, the negative part, or both", () => {
  const codes = frame([
    [0, 0, 127],
    [1, 0, -127],
  ]);
  const alphas = (sign) => [0, 1].map((i) => pixel(composeImage({ ...codes, sign }), i)[3]);
  assert.deepEqual(alphas("pos"), [0.5, 0]);
  assert.deepEqual(alphas("neg"), [0, 0.5]);
  assert.deepEqual(alphas("abs"), [0.5, 0.5]);
});

test("both signs are shown in two hues", () => {
  const map = {
    ...frame([
      [0, 0, 127],
      [1, 0, -127],
    ]),
    sign: "both",
    chosen: [0],
    negative: [[0, 0, 1]],
  };
  near(pixel(composeImage(map), 0), [0.5, 0, 0, 0.5]);
  near(pixel(composeImage(map), 1), [0, 0, 0.5, 0.5]);
  near(pixel(composeImage({ ...map, scale: null }), 0), [1, 0, 0, 1]);
});

test("parts of channels are taken before they are added", () => {
  const mixed = frame([
    [0, 0, 127],
    [0, 1, -127],
  ]);
  near(pixel(composeImage(mixed), 0), [0.5, 0, 0, 0.5]);
});

test("only chosen channels are shown; the residual is white", () => {
  const mixed = frame([
    [0, 0, 127],
    [0, 1, 127],
    [0, 2, 127],
  ]);
  near(pixel(composeImage({ ...mixed, chosen: [0] }), 0), [0.5, 0, 0, 0.5]);
  near(pixel(composeImage({ ...mixed, chosen: [], residual: true }), 0), [0.5, 0.5, 0.5, Math.sqrt(0.75)]);
});

test("a layer without a residual ignores it", () => {
  const input = {
    ...frame([]),
    values: { codes: Int8Array.of(127, 0), depth: 2, frameScale: 2 },
    grid: { height: 1, width: 1 },
    chosen: [],
    residual: true,
  };
  near(pixel(composeImage(input), 0), [0, 0, 0, 0]);
});

test("what is brighter than full is clipped", () => {
  const image = composeImage({ ...frame([[0, 0, 127]]), scale: 1 });
  near(pixel(image, 0), [1, 0, 0, 1]);
  assert.deepEqual(Array.from(image.rgba.subarray(0, 4)), [255, 0, 0, 255]);
});

test("bytes hold color divided by opacity", () => {
  const image = composeImage({ ...frame([[0, 1, 127]]), scale: 5 });
  assert.deepEqual(Array.from(image.rgba.subarray(0, 4)), [0, 180, 180, 102]);
});

test("smoothing spreads exp(-d) up to a distance of 7, zeros outside, not normalised", () => {
  const [height, width] = [17, 20];
  const plane = new Float32Array(height * width);
  plane[8 * width + 8] = 2;
  plane[3] = -1;
  const out = spread(plane, height, width);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      let expected = 0;
      for (const [py, px, value] of [
        [8, 8, 2],
        [0, 3, -1],
      ]) {
        const d = Math.hypot(y - py, x - px);
        if (d <= 7) expected += value * Math.exp(-d);
      }
      assert.ok(Math.abs(out[y * width + x] - expected) < 1e-6);
    }
  }
});

test("a threshold empties what is weaker", () => {
  const two = frame([
    [0, 0, 127],
    [1, 0, 64],
  ]);
  const image = composeImage({ ...two, threshold: 0.3 });
  assert.equal(pixel(image, 0)[3], 0.5);
  assert.equal(pixel(image, 1)[3], 0);
});

test("a frame's own scale is its largest signed value, or the largest of all where none is positive", () => {
  assert.equal(frameOwnScale(Int8Array.of(127, -10, 120, 5, 64, -127), 3, 2, 2), 2);
  assert.equal(frameOwnScale(Int8Array.of(-127, -10, 127), 3, 2, 2), 2);
  assert.equal(frameOwnScale(Int8Array.of(0, 0, 127), 3, 2, 2), 1);
});

test("grey is luma", () => {
  const rgba = Uint8ClampedArray.of(255, 0, 0, 9, 0, 255, 0, 8);
  makeGrey(rgba);
  assert.deepEqual(Array.from(rgba), [76, 76, 76, 9, 150, 150, 150, 8]);
});
