import assert from "node:assert/strict";
import { test } from "node:test";
import { causesOf, endText, episodeAt, episodeText, framesEndedBy, lengthOf } from "./episodes.js";

const done = { frame: 0, steps: 60, return: 0, end: "done" };
const late = { frame: 60, steps: 40, return: 10, end: "time limit" };
const cut = { frame: 100, steps: 28, return: 3, end: "cut" };

test("an episode says how long it was, what it returned, and why it ended", () => {
  assert.deepEqual([done, late, cut].map(episodeText), [
    "ended after 60, return 0",
    "ended after 40, return 10",
    "28+ (cut), return 3",
  ]);
  assert.deepEqual([done, late, cut, { ...done, end: "ended" }].map(endText), ["done", "time limit", "", ""]);
  assert.deepEqual([done, cut].map(lengthOf), ["60", "28+"]);
});

test("the episode of a frame; a page that lists none has none", () => {
  const trajectory = { episodes: [done, late, cut] };
  assert.deepEqual(
    [0, 59, 60, 127].map((frame) => episodeAt(trajectory, frame).frame),
    [0, 0, 60, 100],
  );
  assert.equal(episodeAt({}, 5), undefined);
});

test("episodes are found by what ended them", () => {
  const killed = { ...done, cause: "buzz saw" };
  const trajectories = [{ episodes: [killed, late] }, { episodes: [cut] }, {}];
  assert.deepEqual(causesOf({ trajectories }), [
    ["buzz-saw", "buzz saw"],
    ["time-limit", "time limit"],
  ]);
  assert.deepEqual([...framesEndedBy(trajectories[0], "buzz-saw").keys()], [59]);
  assert.equal(framesEndedBy(trajectories[2], "buzz-saw").size, 0);
});
