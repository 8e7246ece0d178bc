import assert from "node:assert/strict";
import { test } from "node:test";
import { mapIndex, saliencyMap, saliencyScale, segmentOfMap } from "../../data/saliency.js";
import { actionColors, saliencyColor } from "./colors.js";
import { axisWeights, composeSaliency, interpolate, overlaySize } from "./saliency.js";

const array = (Type, shape, ...data) => ({ data: Type.from(data), shape });
const CHUNK = {
  arrays: {
    steps: array(Int32Array, [3], 64, 68, 72),
    "codes.value": array(Uint8Array, [3, 1, 2], 0, 0, 51, 255, 255, 0),
    "scales.value": array(Float32Array, [3], 0, 10, 1),
    "totals.value": array(Float32Array, [3], 7, 12, 1),
  },
};
const CENTERS = { rows: [0.5], columns: [0.25, 0.75] };

test("a frame shows the last map that is not after it", () => {
  assert.deepEqual(
    [64, 67, 68, 71, 72, 200].map((frame) => mapIndex(CHUNK, frame)),
    [0, 0, 1, 1, 2, 2],
  );
  assert.equal(mapIndex(CHUNK, 63), -1);
  assert.deepEqual(
    [59, 60, 64, 65, 69, 70].map((frame) => segmentOfMap(frame, 10, 64)),
    [0, 0, 0, 0, 0, 1],
  );
});

test("codes are shares of the map's largest value, and a constant map is none", () => {
  const { data, scale, total, step } = saliencyMap(CHUNK, "value", 1);
  assert.deepEqual([[...data], scale, total, step], [[2, 10], 10, 12, 68]);
  assert.equal(saliencyMap(CHUNK, "value", 0), null);
  assert.equal(saliencyMap(CHUNK, "policy", 1), null);
  assert.equal(saliencyMap(CHUNK, "value", 3), null);
});

test("maps with a sign have codes from -127 to 127", () => {
  const arrays = { ...CHUNK.arrays, "codes.value": array(Int8Array, [3, 1, 2], 0, 0, -127, 127, 0, 0) };
  assert.deepEqual([...saliencyMap({ arrays }, "value", 1).data], [-10, 10]);
});

test("the scale is that of the frame, of the trajectory or of all", () => {
  const method = { scales: { value: [4, 0] }, percentile: { value: 3 } };
  const map = saliencyMap(CHUNK, "value", 1);
  assert.deepEqual(
    ["frame", "trajectory", "all"].map((one) => saliencyScale(method, "value", 0, one, map)),
    [10, 4, 3],
  );
  assert.equal(saliencyScale(method, "value", 1, "trajectory", null), 1);
});

test("values are linear between centers and constant beyond the last", () => {
  const map = { data: Float32Array.of(0, 8), height: 1, width: 2 };
  assert.deepEqual([...interpolate(map, CENTERS, { height: 2, width: 4 })], [0, 2, 6, 8, 0, 2, 6, 8]);
  const square = { data: Float32Array.of(0, 0, 4, 8), height: 2, width: 2 };
  const image = interpolate(square, { rows: [0.125, 0.875], columns: [0.25, 0.75] }, { height: 4, width: 2 });
  [0, 0, 4 / 3, 8 / 3, 8 / 3, 16 / 3, 4, 8].forEach((value, i) => assert.ok(Math.abs(image[i] - value) < 1e-6));
  const one = axisWeights([0.5], 3);
  assert.deepEqual(
    [[...one.first], [...one.share]],
    [
      [0, 0, 0],
      [0, 0, 0],
    ],
  );
});

test("an image has the color of its output, the opacity of its value, and nothing outside of the region", () => {
  const map = { data: Float32Array.of(0, 8), height: 1, width: 2 };
  const size = { height: 4, width: 4 };
  const value = { map, scale: 16, color: saliencyColor("value") };
  const { rgba } = composeSaliency({ maps: [value], centers: CENTERS, size, region: [0.25, 0, 0.5, 1] });
  assert.deepEqual([...rgba.subarray(0, 16)], Array(16).fill(0));
  assert.deepEqual([...rgba.subarray(28, 32)], [240, 68, 68, 128]);
  assert.deepEqual([...rgba.subarray(32)], Array(32).fill(0));
  const faint = composeSaliency({ maps: [value], centers: CENTERS, size, threshold: 0.4 }).rgba;
  assert.deepEqual(
    [3, 7, 11, 15].map((at) => faint[at]),
    [0, 0, 0, 128],
  );
});

test("two outputs are mixed by opacity", () => {
  const maps = [
    { map: { data: Float32Array.of(1), height: 1, width: 1 }, scale: 2, color: saliencyColor("policy") },
    { map: { data: Float32Array.of(3), height: 1, width: 1 }, scale: 2, color: saliencyColor("value") },
  ];
  const centers = { rows: [0.5], columns: [0.5] };
  const { rgba } = composeSaliency({ maps, centers, size: { height: 1, width: 1 } });
  assert.deepEqual([...rgba], [(68 + 2 * 240) / 3, 68, (230 + 2 * 68) / 3, 255].map(Math.round));
  assert.deepEqual([...composeSaliency({ maps: [], centers, size: { height: 1, width: 1 } }).rgba], [0, 0, 0, 0]);
});

test("images are as large as frames, at most 256 pixels", () => {
  assert.deepEqual(overlaySize({ frame_height: 210, frame_width: 160 }), { height: 210, width: 160 });
  assert.deepEqual(overlaySize({ frame_height: 512, frame_width: 256 }), { height: 256, width: 128 });
});

test("negative values have a color of their own", () => {
  const map = { data: Float32Array.of(2, -4), height: 1, width: 2 };
  const centers = { rows: [0.5], columns: [0.25, 0.75] };
  const maps = [{ map, scale: 4, color: "#0000ff", negative: "#ffff00" }];
  const { rgba } = composeSaliency({ maps, centers, size: { height: 1, width: 2 } });
  assert.deepEqual([...rgba], [0, 0, 255, 128, 255, 255, 0, 255]);
});

test("actions have different colors where theirs are gray", () => {
  const gray = ["no-op", "FIRE", "right", "left"].map((label, k) => ({ label, color: ["#303030", "#707070"][k % 2] }));
  const colors = actionColors(gray);
  assert.equal(new Set(colors).size, 4);
  assert.equal(colors[0], "#8a8f96");
  assert.deepEqual(actionColors([...gray, { label: "A", color: "#b34fa3" }]).slice(0, 2), ["#303030", "#707070"]);
  const many = Array.from({ length: 18 }, (_, k) => ({ label: `${k}`, color: "#303030" }));
  assert.equal(new Set(actionColors(many.slice(0, 16))).size, 16);
  assert.equal(actionColors(many)[16], actionColors(many)[0]);
});
