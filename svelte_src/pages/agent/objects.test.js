import assert from "node:assert/strict";
import { test } from "node:test";
import { defineSelection } from "../../kit/page/selection.js";
import { FIELDS } from "./fields.js";
import { attributionOf, isObject, typeColor, typeNames, unitOf } from "./objects.js";

const { changed, fromQuery, initialSelection, toQuery } = defineSelection({ fields: FIELDS });

const SECTION = { width: 64, height: 64, types: [{ name: "saw" }, { name: "big crate" }] };
const MANIFEST = {
  agent: { kind: "policy" },
  trajectories: [{ steps: 100 }, { steps: 50 }],
  layers: [],
  outputs: [{ id: "value" }],
  others: [{ kind: "objects", data: SECTION }],
};
const WITHOUT = { ...MANIFEST, others: [] };

test("type and object are in the address", () => {
  const selection = { ...initialSelection(MANIFEST), objects: true, type: 1, object: { trajectory: 1, track: 12 } };
  const query = toQuery(MANIFEST, selection);
  assert.ok(query.endsWith("&objects=1&type=big+crate&object=2%7E13"), query);
  assert.deepEqual(fromQuery(MANIFEST, query), selection);
});

test("an address with a type or an object that the page does not have selects none", () => {
  const read = (manifest, text) => {
    const { type, object } = fromQuery(manifest, text);
    return [type, object];
  };
  assert.deepEqual(read(MANIFEST, "?type=dragon&object=3~1"), [null, null]);
  assert.deepEqual(read(MANIFEST, "?type=&object=2~0"), [null, null]);
  assert.deepEqual(read(MANIFEST, "?object=x"), [null, null]);
  assert.deepEqual(read(WITHOUT, "?type=saw"), [null, null]);
});

test("the same object stays the same value", () => {
  const object = { trajectory: 0, track: 3 };
  const start = { ...initialSelection(MANIFEST), object };
  assert.equal(changed(MANIFEST, start, { object: { trajectory: 0, track: 3 } }).object, object);
  assert.deepEqual([isObject(object, { trajectory: 1, track: 3 }), isObject(null, object)], [false, false]);
});

test("types have names and colors, effects units", () => {
  assert.deepEqual([typeNames(MANIFEST), typeNames(WITHOUT)], [["saw", "big crate"], []]);
  assert.notEqual(typeColor(MANIFEST, "saw"), typeColor(MANIFEST, "big crate"));
  assert.match(typeColor(MANIFEST, "unknown"), /^#/);
  const units = [{ kind: "value" }, { kind: "action" }].map((output) => unitOf(MANIFEST, output));
  assert.deepEqual(units, ["", "logits"]);
  assert.equal(unitOf({ agent: { kind: "action_values" } }, { kind: "question" }), "action values");
});

test("without attribution on show, places have none", () => {
  const target = { layer: 0, trajectory: 0, frame: 0, output: "value" };
  const saliency = { ...MANIFEST, layers: [{ kind: "saliency" }] };
  for (const manifest of [MANIFEST, saliency])
    assert.deepEqual(attributionOf({ manifest }, target, {}, [{ objects: [0] }, { objects: [1] }]), [null, null]);
});
