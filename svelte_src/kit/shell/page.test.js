import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { createKept } from "./page.js";

const stored = new Map();
let readable = true;

beforeEach(() => {
  stored.clear();
  readable = true;
  globalThis.localStorage = /** @type {any} */ ({
    getItem: (key) => (readable ? (stored.get(key) ?? null) : null),
    setItem: (key, text) => stored.set(key, text),
  });
});
afterEach(() => Reflect.deleteProperty(globalThis, "localStorage"));

const create = () => createKept("key", { theme: "system" }, (value) => value);

test("a page that cannot read what is stored leaves it as it is until the reader changes something", () => {
  stored.set("key", '{"theme":"dark"}');
  readable = false;
  const settings = create();
  assert.equal(stored.get("key"), '{"theme":"dark"}');
  settings.set({ theme: "light" });
  assert.equal(stored.get("key"), '{"theme":"light"}');
});

test("a value that is set back to the default is the default on the next visit", () => {
  const settings = create();
  assert.equal(stored.size, 0);
  settings.set({ theme: "dark" });
  settings.set({ theme: "system" });
  let theme;
  create().subscribe((value) => ({ theme } = value))();
  assert.equal(theme, "system");
});
