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

test("a value from another tab is adopted, and not written again", () => {
  const window = new globalThis.EventTarget();
  globalThis.addEventListener = window.addEventListener.bind(window);
  try {
    const settings = create();
    const received = [];
    settings.received.subscribe((value) => received.push(value));
    const send = (key, theme) => {
      const newValue = JSON.stringify({ theme });
      stored.set(key, newValue);
      window.dispatchEvent(Object.assign(new globalThis.Event("storage"), { key, newValue }));
    };
    globalThis.localStorage.setItem = () => assert.fail("written");
    send("another key", "light");
    send("key", "dark");
    settings.subscribe((value) => assert.deepEqual(value, { theme: "dark" }))();
    assert.deepEqual(received, [null, { theme: "dark" }]);
  } finally {
    Reflect.deleteProperty(globalThis, "addEventListener");
  }
});
