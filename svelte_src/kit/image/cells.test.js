import assert from "node:assert/strict";
import { test } from "node:test";
import { cellUnder, cellArea, cellMiddle } from "./cells.js";

const LAYER = { height: 4, width: 2 };
const CROPPED = { region: [0.5, 0, 1, 1] };

test("a layer's cells divide what the observation shows evenly", () => {
  assert.deepEqual(cellUnder(LAYER, {}, { x: 0.6, y: 0.3 }), { row: 1, column: 1 });
  assert.deepEqual(cellUnder(LAYER, CROPPED, { x: 0.6, y: 0.65 }), { row: 1, column: 1 });
  assert.equal(cellUnder(LAYER, CROPPED, { x: 0.6, y: 0.4 }), null);
  assert.equal(cellUnder(LAYER, {}, { x: 1.01, y: 0.4 }), null);
  assert.deepEqual(cellArea(LAYER, CROPPED, { row: 1, column: 1 }), {
    left: 0.5,
    top: 0.625,
    width: 0.5,
    height: 0.125,
  });
});

test("cells with centers end halfway between them, and the last ones at the edges", () => {
  const map = { height: 2, width: 2, centers: { rows: [0.55, 0.85], columns: [0.1, 0.5] } };
  assert.deepEqual(cellUnder(map, CROPPED, { x: 0.29, y: 0.69 }), { row: 0, column: 0 });
  assert.deepEqual(cellUnder(map, CROPPED, { x: 0.31, y: 0.71 }), { row: 1, column: 1 });
  assert.deepEqual(cellUnder(map, CROPPED, cellMiddle(map, CROPPED, { row: 1, column: 0 })), { row: 1, column: 0 });
});
