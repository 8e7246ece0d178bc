import assert from "node:assert/strict";
import { test } from "node:test";
import { dragging } from "./drag.js";

/** An element of 100 by 50 pixels, and a function that lets a pointer act on it. */
function element() {
  const listeners = {};
  const node = {
    addEventListener: (type, listener) => (listeners[type] = listener),
    removeEventListener: (type) => delete listeners[type],
    getBoundingClientRect: () => ({ left: 10, top: 20, width: 100, height: 50 }),
    setPointerCapture: () => {},
  };
  const pointer = (type, clientX, clientY, more = {}) =>
    listeners[`pointer${type}`]?.({ button: 0, clientX, clientY, preventDefault: () => {}, ...more });
  return { node, pointer, listeners };
}

/** What a drag reports, in order: [name, x, x of the start]. */
function recorded(accepts) {
  const calls = [];
  const report = (name) => (point, start) =>
    calls.push([name, point?.x, start?.x].filter((part) => part !== undefined));
  const names = ["start", "drag", "end", "click", "cancel"];
  return { calls, listeners: { ...Object.fromEntries(names.map((name) => [name, report(name)])), accepts } };
}

test("a press that leaves its place is a drag, one that stays is a click", () => {
  const { node, pointer } = element();
  const { calls, listeners } = recorded();
  dragging(node, listeners);
  pointer("down", 20, 30);
  pointer("move", 23, 30);
  pointer("up", 23, 30);
  pointer("down", 20, 30);
  pointer("move", 60, 30);
  pointer("up", 70, 30);
  assert.deepEqual(
    calls.map(([name, ...xs]) => [name, ...xs]),
    [
      ["start", 10],
      ["click", 10],
      ["start", 10],
      ["drag", 50, 10],
      ["end", 60, 10],
    ],
  );
});

test("a drag that is cancelled has no end, and one that is not accepted does not begin", () => {
  const { node, pointer } = element();
  const { calls, listeners } = recorded(({ pointerType }) => pointerType !== "touch");
  dragging(node, listeners);
  pointer("down", 20, 30, { pointerType: "touch" });
  pointer("down", 20, 30, { button: 2 });
  pointer("up", 20, 30);
  pointer("down", 20, 30);
  pointer("cancel", 60, 30);
  pointer("up", 60, 30);
  assert.deepEqual(calls, [["start", 10], ["cancel"]]);
});

test("points are shares of the element, also outside it, and nothing is reported once it is gone", () => {
  const { node, pointer, listeners } = element();
  const shares = [];
  const { destroy } = dragging(node, { move: ({ share }, dragged) => shares.push([share, dragged]) });
  pointer("move", 60, 45);
  pointer("down", 60, 45);
  pointer("move", 500, 0);
  assert.deepEqual(shares, [
    [{ x: 0.5, y: 0.5 }, false],
    [{ x: 1, y: 0 }, true],
  ]);
  destroy();
  assert.deepEqual(Object.keys(listeners), []);
});
