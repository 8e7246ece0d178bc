import assert from "node:assert/strict";
import test from "node:test";
import { commonScales, overlayImage, reactionText } from "./overlay.js";

/** Maps of one cell, whose values are the scales. */
const mapsOf = (scales) => ({
  arrays: {
    steps: { data: Int32Array.from(scales.keys()), shape: [scales.length] },
    "codes.value": { data: new Uint8Array(scales.length).fill(255), shape: [scales.length, 1, 1] },
    "scales.value": { data: Float32Array.from(scales), shape: [scales.length] },
    "totals.value": { data: Float32Array.from(scales), shape: [scales.length] },
  },
});
const UNTRAINED = mapsOf([1e-4, 2e-4]);
const TRAINED = mapsOf([1, 3]);

test("networks on the same episode have one scale, so that an untrained one does not glow", () => {
  const common = commonScales([UNTRAINED, TRAINED, null]);
  assert.equal(common.trajectory.value, 3);
  assert.ok(Math.abs(common.all.value - (1 + 0.97 * 2)) < 1e-6, "as numpy.percentile");
  const selection = { overlay: "value", scale: "all", palette: "standard" };
  const observation = { frame_height: 1, frame_width: 1 };
  const method = { centers: { rows: [0.5], columns: [0.5] } };
  const shown = (chunk, scale) =>
    overlayImage({
      chunk,
      method,
      frame: 0,
      trajectory: null,
      common,
      selection: { ...selection, scale },
      observation,
    });
  assert.ok(shown(UNTRAINED, "all").image.rgba[3] < 1);
  assert.ok(Math.abs(shown(TRAINED, "trajectory").image.rgba[3] - 255 / 3) < 1);
  assert.equal(shown(UNTRAINED, "frame").image.rgba[3], 255, "the frame's own scale");
  assert.equal(reactionText(shown(UNTRAINED, "all").peaks), "no reaction: below 1 %");
  assert.match(reactionText(shown(TRAINED, "trajectory").peaks), /^largest: value 33/);
});
