import assert from "node:assert/strict";
import { test } from "node:test";
import { applyChanges } from "./changes.js";
import { createSource } from "./source.js";

test("changes lead from one value to the next, and leave the rest as it was", () => {
  const before = { rows: [{ a: 1 }, { a: 2 }, { a: 3 }], gone: 1, same: { b: [1] } };
  const change = {
    keys: {
      rows: { length: 2, items: { 1: { keys: { a: { value: 5 }, c: { value: null } }, removed: [] } } },
      new: { value: [0] },
    },
    removed: ["gone"],
  };
  const after = applyChanges(before, change);
  assert.deepEqual(after, { rows: [{ a: 1 }, { a: 5, c: null }], same: { b: [1] }, new: [0] });
  assert.equal(after.same, before.same);
  assert.equal(after.rows[0], before.rows[0]);
});

test("a source asks for what has changed since the manifest that it has", async () => {
  const asked = [];
  const answers = [
    { etag: '"1"', body: { rows: [1] } },
    {
      etag: '"2"',
      body: { since: "1", change: { keys: { rows: { length: 2, items: { 1: { value: 7 } } } }, removed: [] } },
    },
    { etag: '"3"', body: { rows: [] } },
  ];
  const source = createSource("http://here/", async (address, { headers }) => {
    asked.push([address, headers["If-None-Match"]]);
    const { etag, body } = answers[asked.length - 1];
    return { ok: true, status: 200, headers: new Map([["ETag", etag]]), json: async () => body };
  });
  assert.deepEqual(await source.manifest(), { rows: [1] });
  assert.deepEqual(await source.manifest(), { rows: [1, 7] });
  assert.deepEqual(await source.manifest(), { rows: [] });
  assert.deepEqual(asked, [
    ["http://here/data/manifest.json", undefined],
    ["http://here/data/manifest.json?since=1", '"1"'],
    ["http://here/data/manifest.json?since=2", '"2"'],
  ]);
});
