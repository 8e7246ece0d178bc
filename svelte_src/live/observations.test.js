import assert from "node:assert/strict";
import { test } from "node:test";
import { blurred, createRemovals, paint, unstacked } from "./observations.js";

const SIZE = { height: 3, width: 4, channels: 1 };

test("stacked frames, side by side, are channels of the observation", () => {
  const frames = Uint8Array.of(1, 2, 11, 12, /**/ 3, 4, 13, 14);
  const observation = unstacked(frames, { height: 2, width: 2, channels: 2, stack: 2 });
  assert.deepEqual(Array.from(observation), [1, 11, 2, 12, 3, 13, 4, 14]);
});

test("a box is painted with the median of what surrounds it, rounded down", () => {
  const observation = Uint8Array.from({ length: 12 }, (_, i) => i);
  paint(observation, SIZE, { box: [1, 1, 2, 2], fill: "surroundings" });
  assert.equal(observation[5], 6); // of 0 to 11 without 5, where the ring reaches every pixel
  paint(observation, SIZE, { box: [0, 0, 4, 3], fill: "surroundings" });
  assert.deepEqual(new Set(observation), new Set([6])); // of all pixels, if there is nothing around
});

test("a box is painted with a color, or with another frame", () => {
  const observation = new Uint8Array(12);
  paint(observation, SIZE, { box: [2, 0, 4, 1], fill: "color", color: [7] });
  paint(observation, SIZE, { box: [0, 2, 1, 3], fill: "frame" }, new Uint8Array(12).fill(9));
  assert.deepEqual(Array.from(observation), [0, 0, 7, 7, 0, 0, 0, 0, 9, 0, 0, 0]);
});

test("a blur mixes rows and columns, and rounds halves to even", () => {
  const size = { height: 2, width: 2, channels: 1 };
  const [half, identity] = [Float32Array.of(0.5, 0.5, 0.5, 0.5), Float32Array.of(1, 0, 0, 1)];
  const observation = Uint8Array.of(1, 10, 2, 20);
  assert.deepEqual(Array.from(blurred(observation, size, half, identity)), [2, 15, 2, 15]);
  assert.deepEqual(Array.from(blurred(observation, size, identity, half)), [6, 6, 11, 11]);
});

test("objects are removed where they are in view, and only those that a trajectory has", () => {
  const size = { height: 1, width: 4, channels: 1 };
  const arrays = { frame: [0, 0, 1], track: [0, 1, 1], type: [0, 0, 0], frames: [0, 1], box: new Int32Array(12) };
  Object.assign(arrays, {
    mask: Uint8Array.of(0b10000000, 0b01100000, 0b00010000),
    without: Uint8Array.of(9, 8, 7, 6),
  });
  const removals = createRemovals(arrays, ["saw"], size);
  const removed = (step, numbers) => {
    const observation = new Uint8Array(4);
    removals.remove(observation, step, numbers);
    return Array.from(observation);
  };
  assert.deepEqual(removed(0, [2]), [0, 8, 7, 0]);
  assert.deepEqual(removed(1, [1]), [0, 0, 0, 0]);
  assert.deepEqual(removed(1, [1, 2]), [0, 0, 0, 6]);
  assert.throws(() => removed(1, [3]), /has no object 3/);
  assert.throws(() => removed(2, [1]), /objects of step 3 were not measured/);
  assert.deepEqual(
    removals.listed(0).map(({ number, type }) => [number, type]),
    [
      [1, "saw"],
      [2, "saw"],
    ],
  );
});
