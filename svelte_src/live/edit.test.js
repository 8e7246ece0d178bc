import assert from "node:assert/strict";
import { test } from "node:test";
import { boxBetween, changeOf, changes, editFromText, editToText, emptyEdit, withoutFeature } from "./edit.js";

const MANIFEST = {
  observation: { height: 64, width: 48 },
  trajectories: [{ steps: 10 }, { steps: 20 }],
  layers: [
    { key: "2b", slug: "2b", kind: "layer", channels: 8, height: 4, width: 3 },
    { key: "input", slug: "input", kind: "input", channels: 3 },
  ],
};
const TEXT =
  "without~3,without~12,around~1.2.3.4,color~0.0.48.64~ff0080,frame~1.2.3.4~2~20,only~2b~3,base~2b~1,base~2b~4,times~2b~3~-0.5,add~2b~1~2.5,at~2b~1.0.3.2,maps,effects,last~30,memory";

test("an edit and its text are each other's", () => {
  const edit = editFromText(TEXT, MANIFEST);
  assert.equal(editToText(edit), TEXT);
  assert.deepEqual(edit.boxes[1].color, [255, 0, 128]);
  assert.deepEqual([edit.boxes[2].trajectory, edit.boxes[2].step], [1, 19]);
  assert.ok(changes(edit));
});

test("a box keeps where it was painted, which is not part of the request", () => {
  const text = "around~1.2.3.4~2~20,color~0.0.48.64~ff0080~1~3,frame~1.2.3.4~2~20~1~10";
  const edit = editFromText(text, MANIFEST);
  assert.equal(editToText(edit), text);
  assert.deepEqual(
    edit.boxes.map(({ painted }) => [painted.trajectory, painted.step]),
    [[1, 19], [0, 2], [0, 9]], // prettier-ignore
  );
  assert.ok(changeOf(edit, MANIFEST).boxes.every((box) => !("painted" in box)));
  assert.equal(
    editToText(editFromText("around~1.2.3.4~1~11,around~1.2.3.4~3~1", MANIFEST)),
    "around~1.2.3.4,around~1.2.3.4",
  );
});

test("what the page does not have is left out", () => {
  const wrong = [
    "around~1.2.3",
    "around~3.2.3.4",
    "around~0.0.49.64",
    "color~1.2.3.4~red",
    "frame~1.2.3.4~3~1",
    "frame~1.2.3.4~1~11",
    "times~2b~9~0",
    "times~2b~1~2.5",
    "times~2b~1~x",
    "times~input~1~0",
    "only~4a~1",
    "base~2b~9",
    "add~2b~1~0",
    "add~2b~1~1e9",
    "add~2b~9~1",
    "at~2b~0.0.5.1",
    "at~2b~1.1.1.2",
    "at~4a~0.0.1.1",
    "base~__proto__~1",
    "constructor~1",
    "last~-3",
    "without~0",
    "without~x",
  ];
  for (const text of [...wrong, "", null, undefined]) assert.deepEqual(editFromText(text, MANIFEST), emptyEdit(), text);
});

test("a box covers the pixels between two points", () => {
  assert.deepEqual(boxBetween({ x: 0.5, y: 0.25 }, { x: 0.25, y: 0.5 }, MANIFEST.observation), [12, 16, 24, 32]);
  assert.deepEqual(boxBetween({ x: 1, y: 1 }, { x: 1, y: 1 }, MANIFEST.observation), [47, 63, 48, 64]);
});

test("a request has the changed layers alone, by their names", () => {
  assert.deepEqual(changeOf(editFromText("times~2b~3~0", MANIFEST), MANIFEST), {
    objects: [],
    boxes: [],
    features: [{ layer: "2b", factors: { 3: 0 }, baseline: [], added: {}, only: [] }],
  });
  const [steered] = changeOf(editFromText("add~2b~1~2,at~2b~1.0.2.2", MANIFEST), MANIFEST).features;
  assert.deepEqual([steered.added, steered.positions], [{ 1: 2 }, [[1, 0], [1, 1]]]); // prettier-ignore
});

test("a feature is removed beside other changes", () => {
  const edit = editFromText("around~1.2.3.4,base~2b~1,base~2b~4,times~2b~3~-0.5", MANIFEST);
  const withZero = editToText(withoutFeature(edit, "2b", 4, true));
  assert.equal(withZero, "around~1.2.3.4,base~2b~1,times~2b~3~-0.5,times~2b~4~0");
  const atBaseline = editToText(withoutFeature(edit, "2b", 3, false));
  assert.equal(atBaseline, "around~1.2.3.4,base~2b~1,base~2b~4,base~2b~3");
  assert.equal(editToText(edit), "around~1.2.3.4,base~2b~1,base~2b~4,times~2b~3~-0.5");
});
