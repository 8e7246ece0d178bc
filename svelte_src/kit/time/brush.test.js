import assert from "node:assert/strict";
import { test } from "node:test";
import { brushOf, EMPTY, isMarked, rangesIn, withRange } from "./brush.js";

const points = (checkpoint, episode, steps) => steps.map((step) => ({ checkpoint, episode, step }));

test("steps of an episode are ranges, each checkpoint and episode apart", () => {
  const brush = brushOf([...points("a", 0, [5, 3, 4, 9]), ...points("a", 1, [4]), ...points("b", 0, [1, 1])]);
  assert.deepEqual(rangesIn(brush, "a", 0), [
    [3, 5],
    [9, 9],
  ]);
  assert.deepEqual(rangesIn(brush, "a", 1), [[4, 4]]);
  assert.deepEqual(rangesIn(brush, "b", 0), [[1, 1]]);
  assert.equal(rangesIn(brush, "b", 1), rangesIn(EMPTY, "a", 0), "nothing is the same array every time");
  assert.ok(isMarked(brush, { checkpoint: "a", episode: 0, step: 4 }));
  assert.ok(!isMarked(brush, { checkpoint: "a", episode: 0, step: 6 }));
});

test("ranges that touch or overlap are joined, in either direction", () => {
  let brush = withRange(EMPTY, { checkpoint: "a", episode: 0, first: 10, last: 4 });
  brush = withRange(brush, { checkpoint: "a", episode: 0, first: 11, last: 12 });
  brush = withRange(brush, { checkpoint: "a", episode: 0, first: 20, last: 30 });
  assert.deepEqual(rangesIn(brush, "a", 0), [
    [4, 12],
    [20, 30],
  ]);
  assert.equal(EMPTY.size, 0);
});
