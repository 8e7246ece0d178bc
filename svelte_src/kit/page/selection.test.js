import assert from "node:assert/strict";
import { test } from "node:test";
import { defineSelection } from "./selection.js";

const MANIFEST = { lengths: [100, 20, 5], view: {} };
const NUMBERED = {
  initial: null,
  format: (value, { selection }) => value && `${selection.episode}.${value}`,
  parse: (text, { selection }) => (text.startsWith(`${selection.episode}.`) ? Number(text.slice(2)) : undefined),
};
const { changed, fromQuery, initialSelection, notePlaces, placeFromQuery, places, toQuery, turned } = defineSelection({
  fields: [
    { name: "episode", type: "index", count: ({ lengths }) => lengths.length, always: true, place: true },
    { name: "step", type: "index", count: ({ lengths }, { episode }) => lengths[episode] },
    { name: "shown", key: "view", type: "choice", options: ["a", "b", "c"] },
    { name: "mark", type: NUMBERED },
    { name: "hidden", type: {}, default: 0, key: null },
    { name: "pair", type: "flag", when: ({ shown }) => shown === "b" },
    { name: "title", type: "text", stays: true },
  ],
  combine: (next, patch) => "mark" in patch && (next.hidden = 1),
  notes: (manifest, { step }) => [{ place: `step ${step + 1}` }, { place: "start", patch: { step: 0 } }],
});
const START = initialSelection(MANIFEST);

test("a field depends on those before it", () => {
  assert.equal(changed(MANIFEST, { ...START, step: 80 }, { episode: 1 }).step, 19);
  const selection = fromQuery(MANIFEST, "?step=50&episode=2&mark=1.7");
  assert.deepEqual([selection.episode, selection.step, selection.mark], [1, 19, 7]);
  assert.equal(fromQuery(MANIFEST, "?mark=1.7").mark, null, "of another episode");
});

test("an address has what is not as at first, under its key", () => {
  assert.equal(toQuery(MANIFEST, START, { embed: "1" }), "?embed=1&episode=1");
  const selection = { ...START, shown: "b", mark: 3, hidden: 5, pair: true };
  assert.equal(toQuery(MANIFEST, selection), "?episode=1&view=b&mark=0.3&pair=1");
  assert.equal(toQuery(MANIFEST, { ...selection, shown: "c" }), "?episode=1&view=c&mark=0.3");
});

test("a change may change other fields", () => {
  assert.equal(changed(MANIFEST, START, { mark: 2 }).hidden, 1);
  assert.equal(changed(MANIFEST, START, { step: 2 }).hidden, 0);
});

test("going to a place leaves what is about the page as it is, and notes do not hold it", () => {
  assert.ok(!("title" in placeFromQuery(MANIFEST, "?step=3&title=x")));
  assert.deepEqual(notePlaces(MANIFEST, { ...START, step: 4, title: "x" }, null), [
    { place: "step 5", query: "?episode=1&step=5" },
    { place: "start", query: "?episode=1" },
  ]);
  assert.deepEqual(places, ["episode"]);
});

test("keys turn a field: a number to the next, a choice around, a flag over", () => {
  assert.deepEqual(turned(MANIFEST, START, "episode", 1), { episode: 1 });
  assert.deepEqual(
    [turned(MANIFEST, START, "shown", -1), turned(MANIFEST, { ...START, shown: "c" }, "shown", 1)],
    [{ shown: "c" }, { shown: "a" }],
  );
  assert.deepEqual(turned(MANIFEST, START, "pair", 1), { pair: true });
});
