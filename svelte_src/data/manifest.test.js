import assert from "node:assert/strict";
import test from "node:test";
import { stillToBeMade } from "./manifest.js";

const trajectory = (t) => ({ series: `s${t}`, scrub: [`strip${t}`], frames: [`f${t}`], pictures: [`p${t}`] });
const layer = (name) => ({
  name,
  thumbnails: [`thumbnail-${name}`],
  totals: [0, 1, 2, 3].map((t) => `totals-${name}-${t}`),
  attribution: { value: [0, 1, 2, 3].map((t) => [`a-${name}-${t}-1`, `a-${name}-${t}-2`]) },
});
const manifest = (missing) => ({
  missing,
  trajectories: [0, 1, 2, 3].map(trajectory),
  layers: [layer("1a"), layer("2b")],
});

test("what is missing is named by layers and trajectories", () => {
  assert.equal(stillToBeMade(manifest(["f1"])), "frames of trajectory 2");
  assert.equal(stillToBeMade(manifest(["p0", "s2", "strip3"])), "frames of trajectories 1, 3 to 4");
  assert.equal(stillToBeMade(manifest(["thumbnail-2b"])), "features of 2b");
  assert.equal(
    stillToBeMade(manifest(["a-1a-0-2", "totals-2b-0", "totals-2b-1", "a-2b-2-1", "a-2b-3-1"])),
    "attribution to 1a on trajectory 1, to 2b",
  );
});

test("nothing but what all layers together decide", () => {
  assert.equal(stillToBeMade(manifest(["features_grids/1a.js"])), "how features compare");
  assert.equal(stillToBeMade({ ...manifest([]), missing: undefined }), "how features compare");
});
