import assert from "node:assert/strict";
import { test } from "node:test";
import { cropOf, examplesOf, KINDS, kindsIn, overlaps } from "./examples.js";
import { rowOf } from "../../data/series.js";

const LAYER = {
  height: 8,
  width: 16,
  receptive_field: { height: 12, width: 12, effective_height: 8, effective_width: 4 },
};
const OBSERVATION = { height: 64, width: 64 };
const kind = (id) => KINDS.find((one) => one.id === id);
const ints = (...numbers) => Int32Array.from(numbers);

test("examples have the place of their peak", () => {
  const arrays = {
    excites: { data: ints(3, 17, -1, 0, 5, 0, 6, 127), shape: [2, 2, 2] },
    excites_strength: { data: Float32Array.of(2, 0, 4, 3), shape: [2, 2] },
    "raises.value": { data: ints(0, 7, 18, 1, 9, 2), shape: [2, 1, 3] },
    "raises_strength.value": { data: Float32Array.of(0.5, 0.25), shape: [2, 1] },
  };
  assert.deepEqual(examplesOf(arrays, kind("excites"), "value", 0, LAYER), [
    { cell: 3, row: 1, column: 1, strength: 2 },
  ]);
  assert.deepEqual(examplesOf(arrays, kind("excites"), "value", 1, LAYER)[1], {
    cell: 6,
    row: 7,
    column: 15,
    strength: 3,
  });
  assert.deepEqual(examplesOf(arrays, kind("raises"), "value", 1, LAYER), [
    { trajectory: 1, frame: 9, row: 0, column: 2, strength: 0.25 },
  ]);
  assert.deepEqual(
    kindsIn(arrays, "value").map(({ id }) => id),
    ["excites", "raises", "place"],
  );
  assert.deepEqual(
    kindsIn(arrays, "action-1").map(({ id }) => id),
    ["excites", "place"],
  );
  assert.deepEqual(examplesOf({}, kind("lowest"), "value", 0, LAYER), []);
});

test("the receptive field of the peak is boxed, with as much around it on each side", () => {
  const { box, crop } = cropOf(LAYER, OBSERVATION, OBSERVATION, { row: 3, column: 8 });
  assert.deepEqual(box, { x: 32, y: 24, width: 4, height: 8 });
  assert.deepEqual(crop, { x: 28, y: 16, width: 12, height: 24 });
});

test("boxes and crops stay inside the observation", () => {
  const { box, crop } = cropOf(LAYER, OBSERVATION, OBSERVATION, { row: 0, column: 15 });
  assert.deepEqual(crop, { x: 52, y: 0, width: 12, height: 24 });
  assert.deepEqual(box, { x: 60, y: 0, width: 4, height: 8 });
  const wide = { ...LAYER, receptive_field: { height: 64, width: 64, effective_height: 60, effective_width: 60 } };
  assert.deepEqual(cropOf(wide, OBSERVATION, OBSERVATION, { row: 3, column: 8 }).crop, {
    x: 0,
    y: 0,
    width: 64,
    height: 64,
  });
});

test("a larger frame of the same view is cropped in its own pixels", () => {
  const { crop } = cropOf(LAYER, OBSERVATION, { height: 512, width: 256 }, { row: 3, column: 8 });
  assert.deepEqual(crop, { x: 112, y: 128, width: 48, height: 192 });
  const { crop: older } = cropOf({ height: 8, width: 16 }, OBSERVATION, OBSERVATION, { row: 3, column: 8 });
  assert.deepEqual([older.width, older.height], [48, 64], "a page without receptive fields");
});

test("features that overlap are listed, most first", () => {
  const arrays = { overlap: { data: Float32Array.of(1, 0.5, 0.1, 0.3, 1, 0.9, 0, 0, 1), shape: [3, 3] } };
  assert.deepEqual(
    overlaps(arrays, 1).map(({ channel }) => channel),
    [2, 0],
  );
  assert.deepEqual(overlaps({}, 1), []);
  assert.deepEqual(rowOf({ data: Int32Array.of(1, 2, 3, 4), shape: [2, 2] }, 1), [3, 4]);
});
