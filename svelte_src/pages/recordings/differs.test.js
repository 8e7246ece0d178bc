import assert from "node:assert/strict";
import test from "node:test";
import { availableTracks, differenceText, differing } from "./tracks.js";

const COMPARED = {
  arrays: { steps: { data: Int32Array.of(0, 2, 4) }, differences: { data: Float32Array.of(0, 1e-6, 0.25) } },
};

test("steps between those that were compared differ as the last of these", () => {
  const differs = differing(COMPARED, 6);
  assert.deepEqual([...differs.data], [0, 0, 1e-6, 1e-6, 0.25, 0.25].map(Math.fround));
  assert.deepEqual(differs.shape, [6]);
  const [track] = availableTracks([{ state: "ready", series: { differs }, trajectory: null, maps: null, error: null }]);
  assert.equal(track.label, "Differs from the agent");
  assert.match(
    differenceText({ differs }),
    /^At 2 of 6 steps, the maps are of a different network .* up to 25% of their range/,
  );
});

test("nothing is said of networks that acted, nor where nothing was compared", () => {
  assert.equal(differenceText({ differs: { data: Float32Array.of(0, 1e-5), shape: [2] } }), "");
  assert.equal(differenceText({}), "");
});
