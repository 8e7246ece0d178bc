import assert from "node:assert/strict";
import { test } from "node:test";
import { tourPlace } from "./tour.js";

const WINDOW = { width: 1366, height: 768 };
const AREA = 360 * 150;

test("the box is at the lower right, unless the panel is there", () => {
  const { left, top, width } = tourPlace({ left: 0, top: 0, width: 1366, height: 300 }, WINDOW, AREA);
  assert.deepEqual([left, top, width], [1366 - 372, 768 - 162, 360]);
  const place = tourPlace({ left: 1150, top: 60, width: 216, height: 708 }, WINDOW, AREA);
  assert.deepEqual([place.left, place.width], [12, 360]);
});

test("beside a panel as high as the window it is narrow", () => {
  const { left, width } = tourPlace({ left: 224, top: 60, width: 910, height: 708 }, WINDOW, AREA);
  assert.equal(width, 188);
  assert.ok(left + width <= 224 || left >= 224 + 910);
});

test("on a telephone it is below the panel, or covers the lower part of one that fills the window", () => {
  const phone = { width: 390, height: 844 };
  for (const height of [500, 1200]) {
    const { left, top, width } = tourPlace({ left: 0, top: 60, width: 390, height }, phone, AREA);
    assert.deepEqual([left, top, width], [18, 682, 360]);
  }
});
