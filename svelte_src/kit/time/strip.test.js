import assert from "node:assert/strict";
import { test } from "node:test";
import { latest, recent } from "../../data/cache.js";
import { filmParts, stepToX } from "./draw.js";
import { createQueue, redraw, stripAround, stripOffset, stripView } from "./strip.js";

const view = (center, visible = 256, steps = 4096) => ({ center, visible, steps, width: 512, height: 48 });

test("a strip holds the whole of a trajectory that is not much longer than the view", () => {
  const strip = stripAround(view(3, 256, 512));
  assert.deepEqual(strip, { from: -0.5, to: 511.5 });
  for (const frame of [0, 255, 511]) assert.equal(redraw(view(frame, 256, 512), strip), null);
});

test("a strip of a long trajectory is drawn anew in time, and at once after a jump", () => {
  const strip = stripAround(view(1000));
  assert.deepEqual(strip, { from: 744, to: 1256 });
  assert.equal(redraw(view(1060), strip), null);
  assert.equal(redraw(view(1065), strip), "soon");
  assert.equal(redraw(view(935), strip), "soon");
  assert.equal(redraw(view(1129), strip), "now");
  assert.equal(redraw(view(3000), strip), "now");
});

test("a film shows the images in view, and of a long episode not all", () => {
  const parts = (...args) => filmParts(view(...args), 512);
  assert.deepEqual(
    parts(2048, 4096),
    Array.from({ length: 8 }, (_, i) => ({ index: i, start: 512 * i, count: 512 })),
  );
  assert.deepEqual(
    parts(5000, 256, 100_000).map(({ index }) => index),
    [9, 10],
  );
  const long = parts(49_999.5, 100_000, 100_000);
  assert.equal(long.length, 49, "every fourth of 196");
  assert.deepEqual(long[1], { index: 4, start: 2048, count: 2048 });
  assert.equal(
    long.reduce((sum, { count }) => sum + count, 0),
    100_000,
  );
});

test("there is nothing to draw beyond the ends of a trajectory", () => {
  const strip = stripAround(view(0));
  assert.equal(strip.from, -0.5);
  assert.equal(redraw(view(0), strip), null);
  assert.equal(redraw(view(4095), stripAround(view(4095))), null);
});

test("what is drawn on a strip stands where it would stand in the view", () => {
  for (const frame of [0, 700, 900, 4095]) {
    const now = view(frame);
    const strip = stripAround(view(Math.min(frame + 60, 4095)));
    const whole = stripView(now, strip);
    const x = stepToX(whole, frame) + stripOffset(now, strip, 1);
    assert.ok(Math.abs(x - stepToX(now, frame)) <= 0.5, `${x}`);
  }
});

test("waiting tasks run one by one, each once", () => {
  const requests = [];
  const queue = createQueue((task) => requests.push(task));
  const done = [];
  const [first, second, third] = ["a", "b", "c"].map((name) => () => done.push(name));
  queue.add(first);
  queue.add(first);
  queue.add(second);
  queue.add(third);
  queue.remove(second);
  assert.equal(requests.length, 1);
  while (requests.length) requests.shift()();
  assert.deepEqual(done, ["a", "c"]);
  queue.add(second);
  requests.shift()();
  assert.deepEqual(done, ["a", "c", "b"]);
});

test("a result is the same for as long as its arguments are", () => {
  const of = latest((...all) => all);
  const [a, b] = [{}, {}];
  const before = of(a, b);
  assert.equal(of(a, b), before);
  assert.notEqual(of(b, a), before);
});

test("the last results are remembered, as many as wanted", () => {
  const asked = [];
  const square = recent(
    ({ x }) => (asked.push(x), x * x),
    ({ x }) => [x],
    2,
  );
  assert.deepEqual(
    [1, 2, 1, 3, 1, 2].map((x) => square({ x })),
    [1, 4, 1, 9, 1, 4],
  );
  assert.deepEqual(asked, [1, 2, 3, 2]);
});
