import assert from "node:assert/strict";
import { test } from "node:test";
import {
  commonRange,
  cumulative,
  entropies,
  largest,
  ofActions,
  returnsToCome,
  valuesOf,
} from "../../kit/time/numbers.js";
import { mapPeaks, passes, regionBoxes, regionCells, regionName, regionShares, rolling } from "./maps.js";

const array = (Type, shape, ...data) => ({ data: Type.from(data), shape });
const CENTERS = { rows: [0.1, 0.3, 0.5, 0.7], columns: [0.25, 0.75] };
const SERIES = {
  actions: array(Int32Array, [4], 0, 1, 1, 0),
  rewards: array(Float32Array, [4], 0, 1, 0, 2),
  firsts: array(Uint8Array, [4], 1, 0, 0, 0),
  values: array(Float32Array, [4], 1, 2, 3, 4),
  advantages: array(Float32Array, [4], 0, 0.5, -0.5, 0),
  probabilities: array(Float32Array, [4, 2], 0.5, 0.5, 1, 0, 0.25, 0.75, 0.75, 0.25),
};

test("regions are a grid over the maps, or boxes of the frame", () => {
  const grid = { rows: 2, columns: 2, boxes: [], names: {} };
  assert.deepEqual(regionCells(CENTERS, grid), [
    [0, 2],
    [1, 3],
    [4, 6],
    [5, 7],
  ]);
  assert.deepEqual(
    regionBoxes(CENTERS, grid)[0].map((x) => Number(x.toFixed(6))),
    [0, 0, 0.4, 0.5],
  );
  assert.deepEqual(
    regionCells(CENTERS, {
      ...grid,
      boxes: [
        [0, 0, 0.5, 1],
        [0.5, 0.5, 1, 1],
      ],
    }),
    [
      [0, 1, 2, 3],
      [5, 7],
    ],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((k) => regionName(grid, k)),
    ["top left", "top right", "bottom left", "bottom right"],
  );
  assert.equal(regionName({ ...grid, names: { 1: "ball" } }, 1), "ball");
  assert.equal(regionName({ ...grid, rows: 3 }, 4), "row 3 left");
});

test("shares add up to 1 over a grid, and are 0 in a constant map", () => {
  const codes = array(Uint8Array, [2, 2, 2], 1, 2, 3, 4, 0, 0, 0, 0);
  const shares = regionShares(codes, "[[0, 1], [2], [3]]");
  assert.deepEqual(
    shares.map((share) => [...share]),
    [
      [0.3, 0],
      [0.3, 0],
      [0.4, 0],
    ],
  );
  const signed = array(Int8Array, [1, 1, 2], -30, 10);
  assert.deepEqual([...regionShares(signed, "[[0]]")[0]], [0.75]);
});

test("the peak of a map is its largest magnitude", () => {
  assert.deepEqual([...mapPeaks(array(Int8Array, [3, 1, 3], 1, -5, 4, 0, 0, 0, 2, 0, 2))], [1, -1, 0]);
});

test("a rolling mean is over the numbers so far, with their least and largest", () => {
  const { mean, low, high } = rolling(Float64Array.of(1, 3, 2, 8), 3);
  assert.deepEqual(
    [[...mean], [...low], [...high]],
    [
      [1, 2, 2, 13 / 3],
      [1, 1, 1, 2],
      [1, 3, 3, 8],
    ],
  );
});

test("moments are where a share passes a part of its largest", () => {
  assert.deepEqual(passes(Float64Array.of(0.1, 0.6, 0.7, 0.2, 0.8, 0.4), 0.5), [1, 4]);
  assert.deepEqual(passes(Float64Array.of(0.6, 0.1), 0.5), [0]);
  assert.deepEqual(passes(Float64Array.of(0, 0), 0.5), []);
  assert.deepEqual(passes(Float64Array.of(0, 0.1), 0), [1]);
});

test("numbers along an episode", () => {
  assert.deepEqual([...cumulative(SERIES.rewards.data)], [0, 1, 1, 3]);
  assert.deepEqual([...returnsToCome(SERIES.rewards.data, SERIES.firsts.data)], [3, 3, 2, 2]);
  assert.deepEqual([...returnsToCome(Float32Array.of(1, 1, 1), Uint8Array.of(1, 0, 1))], [2, 1, 1]);
  const entropy = entropies(SERIES.probabilities);
  assert.ok(Math.abs(entropy[0] - Math.log(2)) < 1e-12);
  assert.equal(entropy[1], 0);
  assert.deepEqual([...largest(SERIES.probabilities)], [0.5, 1, 0.75, 0.75]);
  assert.deepEqual([...ofActions(SERIES.probabilities, SERIES.actions.data)], [0.5, 0, 0.75, 0.75]);
  assert.deepEqual([...valuesOf({ logits: array(Float32Array, [2, 2], 1, 3, 2, -1) })], [3, 2]);
  assert.equal(valuesOf({}), null);
  assert.deepEqual(commonRange([[1, 5], null, [], [-2]]), [-2, 5]);
});
