import assert from "node:assert/strict";
import { test } from "node:test";
import { KINDS, searchFromText, searchToText } from "../../data/find.js";
import { searchable, stepsFound } from "./find.js";

test("steps are found by condition in the chosen episodes that are loaded", () => {
  const array = (...list) => ({ data: Float32Array.from(list) });
  const series = (...rewards) => ({
    rewards: array(...rewards),
    actions: array(0, 1, 1),
    values: array(1, 2, 3),
    probabilities: { data: Float32Array.of(0.5, 0.5, 1, 0, 0.5, 0.5), shape: [3, 2] },
  });
  const rows = [{ key: "a", end: "time limit" }, { key: "b", end: "done" }, { key: "c" }];
  const byKey = new Map(rows.map((row) => [row.key, row]));
  const plays = new Map([
    ["a", { series: series(0, 2, 0) }],
    ["b", { series: series(-1, 0, 0) }],
    ["c", { series: null }],
  ]);
  const actions = [{ label: "left" }, { label: "right" }];
  const of = searchable({ runs: [{ manifest: { actions: [] } }, { manifest: { actions } }] });
  const found = (text) => {
    const find = searchFromText(of, text, KINDS.recordings);
    assert.equal(searchToText(of, find), text);
    return stepsFound({ byKey }, plays, { find, chosen: ["a", "b", "c"] }).map(({ row, step }) => `${row.key}${step}`);
  };
  assert.deepEqual(found("reward~not~0"), ["a1", "b0"]);
  assert.deepEqual(found("action~1,value~above~2.5"), ["a2", "b2"]);
  assert.deepEqual(found("entropy~below~0.1"), ["a1", "b1"]);
  assert.deepEqual(found("end~time-limit"), ["a2"]);
  assert.deepEqual(found("end~done"), ["b2"]);
  assert.deepEqual(found("advantage~above~0"), [], "which these recordings do not have");
  for (const text of ["first", "end~won", "toString~1", "bookmark~high", "action~7", "jump~above~1~value"]) {
    assert.equal(searchFromText(of, text, KINDS.recordings), null, text);
  }
  assert.equal(stepsFound({ byKey }, plays, { find: null, chosen: [] }), null);
});
