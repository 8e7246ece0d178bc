import assert from "node:assert/strict";
import { test } from "node:test";
import { cleanName, cleanNames, mergedNames, namesFromTexts, namesToTexts, naming, renamed } from "./names.js";

const MANIFEST = {
  layers: [
    { key: "2 b/é~", slug: "2-b", channels: 3, names: ["coin", null, null] },
    { key: "3a", slug: "3a", channels: 2 },
  ],
};

const named = (names, layer, channel) => naming(MANIFEST, names).name(layer, channel);

test("a reader's name precedes the page's; an empty one removes it", () => {
  const gold = renamed(MANIFEST, {}, 0, 0, "gold");
  assert.deepEqual(gold, { "2 b/é~": { 1: "gold" } });
  assert.equal(named(gold, 0, 0), "gold");
  assert.equal(named({}, 0, 0), "coin");
  assert.equal(named(renamed(MANIFEST, gold, 0, 0, " "), 0, 0), "");
  assert.equal(named({}, 1, 1), "");
  assert.deepEqual(renamed(MANIFEST, gold, 0, 0, "coin"), {}, "the page's own name need not be kept");
  assert.deepEqual(renamed(MANIFEST, renamed(MANIFEST, {}, 1, 1, "saw"), 1, 1, ""), {});
});

test("a feature is called by its name and number", () => {
  const names = naming(MANIFEST, { "3a": { 1: "saw" } });
  assert.deepEqual([names.label(1, 0), names.title(1, 0), names.name(1, 0)], ["saw (1)", "saw (1)", "saw"]);
  assert.deepEqual([names.label(0, 0), names.label(0, 1), names.label(1, 2)], ["coin (1)", "feature 2", "residual"]);
  assert.equal(names.title(1, 1), "Feature 2");
});

test("names survive an address", () => {
  const names = { "2 b/é~": { 1: "<b>a~b, c=d&e</b>", 3: "" }, "3a": { 2: "saw" } };
  const query = new URLSearchParams();
  for (const text of namesToTexts(MANIFEST, names)) query.append("name", text);
  assert.deepEqual(namesFromTexts(MANIFEST, new URLSearchParams(`${query}`).getAll("name")), names);
  assert.deepEqual(namesFromTexts(MANIFEST, ["3a~9~x", "9z~1~x", "3a~0~x", "__proto__~1~x", "x"]), {});
});

test("names have no control characters and are not too long", () => {
  assert.equal(cleanName("  a\u0000b\n\u202ec "), "a b c");
  assert.equal(cleanName("🪙".repeat(99)), "🪙".repeat(60));
});

test("names from a file are those of the page's features", () => {
  const value = JSON.parse('{"3a": {"1": " saw ", "0": "x", "two": "x", "2": 4, "3": "x"}, "9z": {"1": "y"}}');
  assert.deepEqual(cleanNames(MANIFEST, value), { "3a": { 1: "saw" } });
  assert.deepEqual(
    [null, 3, "x", [], { "3a": null }].map((one) => cleanNames(MANIFEST, one)),
    [{}, {}, {}, {}, {}],
  );
  assert.deepEqual(mergedNames({ a: { 1: "x", 2: "y" } }, { a: { 2: "z" } }), { a: { 1: "x", 2: "z" } });
});
