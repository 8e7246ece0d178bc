import assert from "node:assert/strict";
import { test } from "node:test";
import { findFrames, ordered } from "./find.js";

function context() {
  const of = (...numbers) => ({ data: Float32Array.from(numbers), shape: [numbers.length] });
  const series = {
    actions: { data: Int32Array.of(2, 0, 2, 1) },
    rewards: of(0, 1, 0, -1),
    advantages: of(5, -3, 1, 2),
  };
  return { series, firsts: [1, 0, 1, 0], output: [1, 4, 9, 7], channel: [0.1, 0.9, 0.5, 0] };
}

const frames = (...conditions) =>
  ordered(findFrames(conditions, conditions.map(context)), conditions).map(({ frame }) => frame);

test("frames are found by condition, strongest first", () => {
  assert.deepEqual(frames({ kind: "action", value: 2 }), [0, 2]);
  assert.deepEqual(frames({ kind: "first" }), [0, 2]);
  assert.deepEqual(frames({ kind: "reward", compare: "above", value: 0 }), [1]);
  assert.deepEqual(frames({ kind: "reward", compare: "below", value: 0 }), [3]);
  assert.deepEqual(frames({ kind: "advantage", compare: "above", value: 0 }), [0, 3, 2]);
  assert.deepEqual(frames({ kind: "output", compare: "below", value: 5 }), [0, 1]);
  assert.deepEqual(frames({ kind: "jump", compare: "above", value: 2 }), [1], "no jump between episodes");
  assert.deepEqual(frames({ kind: "channel", compare: "above", value: 0.2 }), [1, 2]);
});

test("conditions hold together, and the first that has numbers orders what was found", () => {
  const above = { kind: "advantage", compare: "above", value: 0 };
  assert.deepEqual(frames({ kind: "first" }, above), [0, 2]);
  assert.deepEqual(frames(above, { kind: "action", value: 2 }), [0, 2]);
  assert.deepEqual(frames(above, { kind: "reward", compare: "below", value: 0 }), [3]);
  assert.deepEqual(frames({ kind: "first" }, { kind: "reward", compare: "above", value: 0 }), []);
});

test("bookmarks are a list of frames like any other", () => {
  const places = new Map([
    [0, 0.5],
    [3, 0.25],
  ]);
  const found = (which) => {
    const conditions = [{ kind: "bookmark", which }];
    return ordered(findFrames(conditions, [{ ...context(), places }]), conditions).map(({ frame }) => frame);
  };
  assert.deepEqual(found("high"), [0, 3]);
  assert.deepEqual(found("low"), [3, 0]);
});

test("frames cannot be found by what the page does not have", () => {
  assert.deepEqual(findFrames([{ kind: "output", compare: "above", value: 0 }], [{ ...context(), output: null }]), []);
});

test("frames are found by the steps before the end of their episode", () => {
  const find = (compare, value) =>
    findFrames([{ kind: "left", compare, value }], [{ ...context(), firsts: [1, 0, 0, 1, 0, 1] }]);
  assert.deepEqual(find("above", 0), [
    { frame: 0, measure: 2 },
    { frame: 1, measure: 1 },
    { frame: 3, measure: 1 },
  ]);
  assert.deepEqual(
    find("not", 1).map(({ frame }) => frame),
    [0, 2, 4],
    "the last episode has no end",
  );
});
