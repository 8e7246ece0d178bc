import assert from "node:assert/strict";
import { test } from "node:test";
import {
  alongTrack,
  areaInFrame,
  areaOf,
  effectsOn,
  framesOfType,
  nearestFrame,
  objectsChunk,
  objectsOf,
  removalsAt,
  sumInAreas,
} from "./objects.js";
import { findOutput } from "./questions.js";

const array = (data, shape = [data.length]) => ({ data: Float32Array.from(data), shape });

const TYPES = ["crate", "saw"];
const ARRAYS = {
  frames: array([0, 4, 8]),
  frame: array([0, 0, 0, 8]),
  type: array([1, 0, 1, 1]),
  track: array([0, 1, 2, 0]),
  box: array([8, 16, 24, 32, 0, 0, 8, 8, 40, 40, 72, 56, 8, 16, 24, 32], [4, 4]),
  offset: array([-2, 1, 3, 0, 4, 0, -1, 1], [4, 2]),
  policy: array([0.1, 0.2, 0.3, 0.4]),
  logits: array([1, 0, -1, 0, 0, 0, 0, 2, 0, 0.5, 0, 0], [4, 3]),
  "effect.value": array([-1, 0.5, -2, 3]),
  "together.frame": array([0, 0, 8]),
  "together.type": array([0, 1, 1]),
  "together.count": array([1, 3, 2]),
  "together.policy": array([0.2, 0.5, 0.4]),
  "together.effect.value": array([0.5, -2.5, 3]),
};
const EFFECTS = { single: ARRAYS["effect.value"].data, together: ARRAYS["together.effect.value"].data };
const SECTION = { width: 64, height: 64, trajectories: [{ chunk: "objects/1.js", types: TYPES }] };
const MANIFEST = {
  agent: { kind: "policy" },
  actions: [{ label: "a" }, { label: "b" }, { label: "c" }],
  outputs: [
    { id: "value", kind: "value" },
    ...[0, 1, 2].map((action) => ({ id: `action-${action}`, kind: "action", action })),
  ],
  others: [{ kind: "objects", data: SECTION }],
};

/** Logits and the policy at frames 0 to 8. */
function seriesOf(logitsAt) {
  const logits = Array.from({ length: 9 }, (_, t) => logitsAt(t));
  const probabilities = logits.map((row) => softmax(row));
  return {
    actions: array(new Array(9).fill(1)),
    logits: array(logits.flat(), [9, 3]),
    probabilities: array(probabilities.flat(), [9, 3]),
  };
}

function softmax(row) {
  const all = row.map(Math.exp);
  const sum = all.reduce((a, b) => a + b);
  return all.map((one) => one / sum);
}

const near = (list, wanted) => list.forEach((value, i) => assert.ok(Math.abs(value - wanted[i]) < 1e-5, `${list}`));

test("the section is found among the others, and a page without it has none", () => {
  assert.equal(objectsOf(MANIFEST), SECTION);
  assert.deepEqual([objectsChunk(MANIFEST, 0), objectsChunk(MANIFEST, 1)], ["objects/1.js", null]);
  assert.equal(objectsOf({ others: [] }), null);
  assert.equal(objectsChunk({ others: [] }, 0), null);
});

test("the nearest measured frame", () => {
  assert.deepEqual(
    [0, 1, 3, 6, 7, 90].map((frame) => nearestFrame(ARRAYS, frame)),
    [0, 0, 4, 4, 8, 8],
  );
  assert.equal(nearestFrame({ frames: array([]) }, 3), null);
});

test("effects on stored outputs are those of the chunk", () => {
  assert.equal(effectsOn(ARRAYS, findOutput(MANIFEST, "value"), null), EFFECTS.single);
  assert.equal(effectsOn(ARRAYS, findOutput(MANIFEST, "value"), null, "together."), EFFECTS.together);
  assert.equal(effectsOn(ARRAYS, { id: "group-0", kind: "group" }, null), null);
});

test("effects on questions combine those on logits with the weights of their frame", () => {
  const series = seriesOf((t) => (t === 0 ? [0, 0, 0] : [0, 0, 50]));
  const on = (id, along = series) => effectsOn(ARRAYS, findOutput(MANIFEST, id), along);
  assert.equal(on("action-0-less-mean", null), null);
  near(on("action-0-less-action-2"), [2, 0, 0, 0.5]);
  near(on("taken"), [0, 0, 2, 0]);
  near(on("action-0-less-mean"), [1, 0, -2 / 3, 0.5]); // the policy of frame 8 is all on the third action
});

test("the effect on a log-probability is its exact change", () => {
  const series = seriesOf(() => [0.5, 0, -1]);
  const [first] = effectsOn(ARRAYS, findOutput(MANIFEST, "log-action-0"), series);
  near([first], [Math.log(softmax([0.5, 0, -1])[0]) - Math.log(softmax([-0.5, 0, 0])[0])]);
});

test("areas are shares of the observation, and lie in its region of the frame", () => {
  const area = areaOf(ARRAYS, 2, SECTION);
  assert.deepEqual(area, { left: 0.625, top: 0.625, right: 1.125, bottom: 0.875 });
  const inFrame = areaInFrame(area, { region: [0.5, 0, 1, 0.5] });
  assert.deepEqual(inFrame, { left: 0.3125, top: 0.8125, right: 0.5, bottom: 0.9375 });
  assert.deepEqual(areaInFrame(areaOf(ARRAYS, 1, SECTION), {}), { left: 0, top: 0, right: 0.125, bottom: 0.125 });
});

test("attribution is summed in a box and its margin, over all channels, by the share of each cell", () => {
  const values = { data: Float32Array.from({ length: 32 }, (_, i) => (i % 2 ? 1 : 10)), depth: 2 };
  const quarter = { left: 0.25 + 1 / 32, top: 0.25 + 1 / 32, right: 0.5 - 1 / 32, bottom: 0.5 - 1 / 32 };
  const sum = (areas) => sumInAreas(values, { height: 4, width: 4 }, areas);
  near([sum([quarter])], [11]);
  near([sum([{ ...quarter, right: 0.625 - 1 / 32 }])], [16.5]);
  near([sum([quarter, quarter])], [11]); // what two boxes share counts once
  near([sum([{ left: -1, top: -1, right: 2, bottom: 2 }])], [16 * 11]);
});

test("removals of a frame: the largest effects first, and types of several objects as a whole", () => {
  const rows = removalsAt(ARRAYS, TYPES, 0, EFFECTS);
  assert.deepEqual(
    rows.map(({ type, count, effect, track, objects }) => [type, count, effect, track, objects]),
    [
      ["saw", 1, -2, 2, [2]],
      ["saw", 1, -1, 0, [0]],
      ["crate", 1, 0.5, 1, [1]],
      ["saw", 2, -2.5, undefined, [0, 2]],
    ],
  );
  assert.deepEqual(rows[0].offset, [4, 0]);
  assert.deepEqual(removalsAt(ARRAYS, TYPES, 4, EFFECTS), []);
  assert.equal(removalsAt(ARRAYS, TYPES, 8, EFFECTS).length, 1); // of two, one is in view
});

test("frames of a type have the object with the largest effect, and the largest come first", () => {
  const measured = [0, 1].map((trajectory) => ({
    ...{ trajectory, arrays: ARRAYS, types: trajectory ? ["saw", "crate"] : TYPES, effects: EFFECTS.single },
  }));
  assert.deepEqual(
    framesOfType(measured, "saw").map(({ trajectory, frame, effect, track }) => [trajectory, frame, effect, track]),
    [
      [0, 8, 3, 0],
      [0, 0, -2, 2],
      [1, 0, 0.5, 1],
    ],
  );
});

test("a track holds each number until the next measured frame, and begins again where the object was away", () => {
  const { values, firsts } = alongTrack(ARRAYS, 0, EFFECTS.single, 10);
  assert.deepEqual([...values], [-1, -1, -1, -1, NaN, NaN, NaN, NaN, 3, 3]);
  assert.deepEqual(
    [...firsts.keys()].filter((t) => firsts[t]),
    [0, 8],
  );
  const stays = alongTrack({ ...ARRAYS, frames: array([0, 8]) }, 0, EFFECTS.single, 10);
  assert.deepEqual([stays.values[7], stays.firsts[8]], [-1, 0]);
});
