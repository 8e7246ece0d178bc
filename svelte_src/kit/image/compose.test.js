import assert from "node:assert/strict";
import { test } from "node:test";
import { composeImage } from "./compose.js";
import { spread } from "./mixed.js";
import { fullScale } from "./values.js";

const HUES = [
  [1, 0, 0],
  [0, Math.SQRT1_2, Math.SQRT1_2],
];

/** One frame of 3 x 4 positions, two features and the residual, with mixed hues; what is not named is 0. */
function frame(entries) {
  const data = new Float32Array(3 * 4 * 3);
  for (const [position, channel, value] of entries) data[position * 3 + channel] = value;
  return {
    values: { data, depth: 3 },
    grid: { height: 3, width: 4 },
    scale: 4,
    hues: HUES,
    sign: "pos",
    chosen: [0, 1],
    residual: false,
    mixed: true,
    smooth: false,
  };
}

const pixel = (image, position) => Array.from(image.premultiplied().subarray(4 * position, 4 * position + 4));
const near = (actual, expected) =>
  actual.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) < 1e-6, `${actual} is not ${expected}`));

test("a channel is weighted by its hue, brightness becomes opacity", () => {
  near(pixel(composeImage(frame([[5, 1, 2]])), 5), [0, 0.5 * Math.SQRT1_2, 0.5 * Math.SQRT1_2, 0.5]);
});

test("signs show the positive part, the negative part, or both", () => {
  const codes = frame([
    [0, 0, 2],
    [1, 0, -2],
  ]);
  const alphas = (sign) => [0, 1].map((i) => pixel(composeImage({ ...codes, sign }), i)[3]);
  assert.deepEqual(alphas("pos"), [0.5, 0]);
  assert.deepEqual(alphas("neg"), [0, 0.5]);
  assert.deepEqual(alphas("abs"), [0.5, 0.5]);
});

test("both signs are shown in two hues", () => {
  const map = {
    ...frame([
      [0, 0, 2],
      [1, 0, -2],
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
    [0, 0, 2],
    [0, 1, -2],
  ]);
  near(pixel(composeImage(mixed), 0), [0.5, 0, 0, 0.5]);
});

test("only chosen channels are shown; the residual is white", () => {
  const mixed = frame([
    [0, 0, 2],
    [0, 1, 2],
    [0, 2, 2],
  ]);
  near(pixel(composeImage({ ...mixed, chosen: [0] }), 0), [0.5, 0, 0, 0.5]);
  near(pixel(composeImage({ ...mixed, chosen: [], residual: true }), 0), [0.5, 0.5, 0.5, Math.sqrt(0.75)]);
});

test("a layer without a residual ignores it", () => {
  const input = {
    ...frame([]),
    values: { data: Float32Array.of(2, 0), depth: 2 },
    grid: { height: 1, width: 1 },
    chosen: [],
    residual: true,
  };
  near(pixel(composeImage(input), 0), [0, 0, 0, 0]);
});

test("what is brighter than full is clipped", () => {
  const image = composeImage({ ...frame([[0, 0, 2]]), scale: 1 });
  near(pixel(image, 0), [1, 0, 0, 1]);
  assert.deepEqual(Array.from(image.rgba.subarray(0, 4)), [255, 0, 0, 255]);
});

test("bytes hold color divided by opacity", () => {
  const image = composeImage({ ...frame([[0, 1, 2]]), scale: 5 });
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
    [0, 0, 2],
    [1, 0, 0.5],
  ]);
  const image = composeImage({ ...two, threshold: 0.3 });
  assert.equal(pixel(image, 0)[3], 0.5);
  assert.equal(pixel(image, 1)[3], 0);
});

/** The same, each position in the color of its strongest feature. */
const strongest = (entries) => ({ ...frame(entries), mixed: false, hues: COLORS });
const COLORS = [
  [1, 0, 0],
  [1, 1, 0],
];

test("the strongest feature of a position wins its hue, and its amount is the opacity", () => {
  const both = strongest([
    [0, 0, 1],
    [0, 1, 2],
    [1, 0, 2],
    [1, 1, -3],
  ]);
  near(pixel(composeImage(both), 0), [0.5, 0.5, 0, 0.5]);
  near(pixel(composeImage(both), 1), [0.5, 0, 0, 0.5]);
  near(pixel(composeImage({ ...both, sign: "neg" }), 0), [0, 0, 0, 0]);
  near(pixel(composeImage({ ...both, sign: "abs" }), 1), [0.75, 0.75, 0, 0.75]);
  near(pixel(composeImage({ ...both, chosen: [0] }), 0), [0.25, 0, 0, 0.25]);
  assert.deepEqual(Array.from(composeImage(both).rgba.subarray(0, 4)), [255, 255, 0, 128]);
});

test("the residual is apart, where it is stronger than every feature that is shown", () => {
  const mixed = strongest([
    [0, 0, 1],
    [0, 2, 2],
    [1, 0, 2],
    [1, 2, 1],
  ]);
  const image = composeImage({ ...mixed, residual: true });
  assert.deepEqual(Array.from(image.residual.subarray(0, 2)), [0.5, 0]);
  near(pixel(image, 0), [0.25, 0, 0, 0.25]);
  assert.ok(composeImage(mixed).residual.every((amount) => amount === 0));
});

test("positions that exceed the scale are named, and few exceed the scale of a trajectory", () => {
  assert.deepEqual(
    composeImage({
      ...strongest([
        [5, 0, 5],
        [6, 0, 4],
      ]),
      scale: 4,
    }).clipped,
    [5],
  );
  assert.deepEqual(composeImage({ ...strongest([[5, 0, 5]]), scale: null }).clipped, []);
  const data = Float32Array.from({ length: 2000 }, (_, i) => (i % 2 ? -i : 0));
  const limit = fullScale([{ data, depth: 2 }]);
  const above = Array.from({ length: 1000 }, (_, i) => 2 * i + 1).filter((value) => value > limit).length;
  assert.ok(above > 0 && above < 10, `${above} of 1000`);
  assert.equal(fullScale([{ data: new Float32Array(4), depth: 2 }]), 1);
});

test("smoothing keeps hues and sums, in pixels of the observation, and leaves coarse layers as they are", () => {
  const side = 32;
  const data = new Float32Array(side * side * 2);
  data[(10 * side + 10) * 2] = 1;
  data[(10 * side + 11) * 2 + 1] = 0.5;
  const options = {
    ...strongest([]),
    values: { data, depth: 2 },
    grid: { height: side, width: side },
    observation: { height: 64, width: 64 },
    scale: 1,
    smooth: true,
  };
  const image = composeImage(options);
  const [first, second] = [10 * side + 10, 10 * side + 11].map((position) => pixel(image, position));
  assert.ok(first[3] > 0.5 && first[3] < 1 && first[1] === 0, "its own hue");
  assert.ok(second[3] > 0.25 && second[3] < 0.5 && second[1] > 0, "that of its own strongest feature");
  assert.ok(pixel(image, 9 * side + 10)[3] === 0, "positions without attribution stay empty");
  const even = { ...options, values: { data: new Float32Array(side * side * 2).fill(0.5), depth: 2 } };
  near(pixel(composeImage(even), 0), [0.5, 0, 0, 0.5]);
  const coarse = { ...options, grid: { height: 8, width: 8 }, values: { data: data.subarray(0, 128), depth: 2 } };
  coarse.values.data[0] = 1;
  assert.equal(pixel(composeImage(coarse), 0)[3], 1);
});
