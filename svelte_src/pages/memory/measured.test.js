import assert from "node:assert/strict";
import { test } from "node:test";
import { completeness, doubt, partnersText, replacements } from "./measured.js";

const WINDOW = { trajectory: 0, first: 5, frame: 7, targets: ["value"] };

test("estimated causes are compared with measured ones", () => {
  const of = (shape, ...data) => ({ shape, data: Float32Array.from(data) });
  const arrays = {
    "memory.sums": of([1, 3], 0.7, 0.3, 0.1),
    "memory.change": of([1], 1.2),
    "replaced.frames": { shape: [1, 3], data: Int32Array.of(0, 1, -1) },
    "replaced.change": of([1, 3], 0.74, 1, NaN),
    "replaced.mean": of([1, 3], 0.3, 0.4, NaN),
    "replaced.partners": { shape: [1, 3], data: Int32Array.of(3, 1, 0) },
    "replaced.partner": of([1, 3], 1.5, 2, NaN),
    "replaced.partner.spread": of([1, 3], 0.25, 0, NaN),
    "replaced.partner.policy": of([1, 3], 0.5, 0.6, NaN),
    "replaced.partner.policy.spread": of([1, 3], 0.1, 0, NaN),
  };
  const found = replacements(arrays, WINDOW, "value");
  assert.deepEqual([...found.keys()], [0, 1]);
  assert.deepEqual([found.get(0).disagrees, found.get(1).disagrees], [false, true]);
  assert.ok(Math.abs(found.get(0).measured - 0.74) < 1e-6);
  assert.match(
    partnersText(found.get(0)),
    /^; 1\.5 ± 0\.25 with the frames of 3 other episodes.* by 0\.50 ± 0\.10 nats; 0\.30 with the mean frame$/,
  );
  assert.match(
    partnersText(found.get(1)),
    /^; 2\.0* with the frame of another episode, .* by 0\.60 nats; 0\.40 with the mean frame$/,
  );
  assert.equal(partnersText({ partners: 0 }), "");
  assert.deepEqual([...found.values()].map(doubt), ["", "disagrees"]);
  const { sum, change, fails } = completeness(arrays, WINDOW, "value", "memory");
  assert.equal(fails, false);
  arrays["memory.change"].data[0] = -1.2;
  assert.equal(completeness(arrays, WINDOW, "value", "memory").fails, true);
  assert.ok(Math.abs(sum - 1.1) < 1e-6 && Math.abs(change - 1.2) < 1e-6);
  assert.equal(completeness(arrays, WINDOW, "value", "whole"), null);
  assert.equal(replacements({}, WINDOW, "value").size, 0);
});

test("small causes are not doubted, and those of several episodes are compared with that of one", () => {
  const of = (shape, ...data) => ({ shape, data: Float32Array.from(data) });
  const arrays = {
    "memory.sums": of([1, 3], 1, 0.01, 0.5),
    "replaced.frames": { shape: [1, 3], data: Int32Array.of(0, 1, 2) },
    "replaced.change": of([1, 3], 0.9, -0.01, 0.4),
    "replaced.mean": of([1, 3], 0.9, -0.01, 0.4),
    "replaced.partners": { shape: [1, 3], data: Int32Array.of(3, 3, 3) },
    "replaced.partner": of([1, 3], 3.8, 0, 0.1),
    "replaced.partner.spread": of([1, 3], 0.1, 0, 0.3),
    "replaced.partner.policy": of([1, 3], 2, 0, 0),
    "replaced.partner.policy.spread": of([1, 3], 0.1, 0, 0),
  };
  const found = replacements(arrays, WINDOW, "value");
  assert.deepEqual([...found.values()].map(doubt), ["more", "", "unclear"]);
  assert.equal(found.get(1).small, true);
});
