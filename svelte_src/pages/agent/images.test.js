import assert from "node:assert/strict";
import { test } from "node:test";
import { createImages } from "../../data/images.js";
import { imageKey } from "../../kit/image/compose.js";
import { axis, pixelsPerStep, stepToX, xToStep } from "../../kit/time/draw.js";
import { atlasCell, cellAt, cellBox, clipPatch, featureGrid, neededImages, patchRectangle } from "./features.js";
import {
  attributionChunks,
  knownLimit,
  movedPoint,
  overlayOf,
  strongestFeatures,
  targetAfter,
  targetValues,
} from "./image.js";
import { shownChannels } from "./channels.js";

test("a patch is expand times the pixels of a position, around its centre", () => {
  const patch = patchRectangle({ height: 8, width: 8 }, { height: 64, width: 32 }, [0.5, 4], 2);
  assert.deepEqual(patch, { x: 12, y: -4, width: 8, height: 16 });
});

test("the part of a patch inside the observation goes to its place in the cell", () => {
  const clip = clipPatch({ x: -4, y: 0, width: 8, height: 8 }, { height: 64, width: 64 }, 40, 40);
  assert.deepEqual(clip, {
    source: { x: 0, y: 0, width: 4, height: 8 },
    target: { x: 20, y: 0, width: 20, height: 40 },
  });
  assert.equal(clipPatch({ x: 70, y: 0, width: 8, height: 8 }, { height: 64, width: 64 }, 40, 40), null);
});

test("cells of the atlas are counted row by row, image by image", () => {
  const atlas = { images: ["a", "b"], per_image: 6, columns: 3, width: 64, height: 32 };
  assert.deepEqual(atlasCell(atlas, 10), { name: "b", x: 64, y: 32 });
  assert.deepEqual(neededImages({ index: Int32Array.of(-1, 1, 7, 2) }, atlas), ["a", "b"]);
});

test("a grid is cut out of its chunk, however its density is written", () => {
  const array = (length, shape) => ({ data: Int32Array.from({ length }, (_, i) => i), shape });
  const arrays = {
    "index.0.5": array(12, [2, 2, 3]),
    "opacity.0.5": array(12, [2, 2, 3]),
    "position.0.5": array(12, [2, 3, 2]),
  };
  const grid = featureGrid(arrays, 0.5, 1);
  assert.deepEqual([grid.rows, grid.columns, Array.from(grid.index)], [2, 3, [6, 7, 8, 9, 10, 11]]);
  assert.equal(featureGrid(arrays, 1, 0), null);
});

test("cells tile the canvas, and a point finds its cell", () => {
  const grid = { rows: 3, columns: 7 };
  const size = { width: 100, height: 50 };
  let area = 0;
  for (let cell = 0; cell < 21; cell += 1) {
    const box = cellBox(grid, size, cell);
    area += box.width * box.height;
    assert.equal(cellAt(grid, size, box.x + box.width / 2, box.y + box.height / 2), cell);
  }
  assert.equal(area, 5000);
  assert.equal(cellAt(grid, size, 101, 5), -1);
});

test("a track shows a short trajectory as a whole, of a long one what is around the frame", () => {
  assert.deepEqual(axis({ frame: 100, visible: 256, steps: 128 }), { center: 63.5, visible: 128 });
  assert.deepEqual(axis({ frame: 100, visible: 50, steps: 128 }), { center: 100, visible: 50 });
  const short = { ...axis({ frame: 100, visible: 256, steps: 128 }), width: 640, steps: 128 };
  assert.equal(stepToX(short, -0.5), 0);
  assert.equal(stepToX(short, 127.5), 640);
  const view = { center: 100, visible: 50, width: 500, height: 10, steps: 200 };
  assert.equal(pixelsPerStep(view), 10);
  assert.equal(stepToX(view, 100), 250);
  assert.equal(xToStep(view, stepToX(view, 83)), 83);
});

/** Three actions and a group of two, one position, one feature and the residual; logits 0, 0 and log 2. */
function policyPage() {
  const codes = { "action-0": [127, 0], "action-1": [0, 127], "action-2": [127, -127] };
  const chunkOf = (...list) => ({
    arrays: { codes: { data: Int8Array.of(...list), shape: [1, 1, 1, 2] }, scales: { data: Float32Array.of(1) } },
  });
  const held = new Map(Object.entries(codes).map(([name, list]) => [name, chunkOf(...list)]));
  const numbers = (...list) => ({ data: Float32Array.from(list), shape: [1, 3] });
  held.set("series", {
    arrays: {
      logits: numbers(0, 0, Math.log(2)),
      probabilities: numbers(0.25, 0.25, 0.5),
      actions: { data: Int32Array.of(2), shape: [1] },
    },
  });
  const ids = Object.keys(codes);
  const layer = { attribution: Object.fromEntries(ids.map((id) => [id, [[id]]])), height: 1, width: 1, channels: 1 };
  const manifest = {
    segment: 64,
    agent: { kind: "policy", action_groups: [{ label: "any", actions: [0, 1] }] },
    actions: ["a", "b", "c"].map((label) => ({ label })),
    outputs: [
      ...ids.map((id, action) => ({ id, kind: "action", action })),
      { id: "group-0", kind: "group", group: 0, label: "any" },
    ],
    trajectories: [{ steps: 1, series: "series" }],
    layers: [layer],
  };
  return { manifest, held, chunks: { peek: (name) => held.get(name) } };
}

test("a target's chunks and values are found, of a question those of all that it combines", () => {
  const page = policyPage();
  const target = (output) => ({ layer: 0, output, trajectory: 0, frame: 0 });
  const valuesOf = (output) => Array.from(targetValues(page, target(output)).data);
  assert.deepEqual(attributionChunks(page, target("action-1")), ["action-1"]);
  assert.deepEqual(valuesOf("action-1"), [0, 1]);
  assert.deepEqual(attributionChunks(page, target("action-0-less-action-2")), ["action-0", "action-2"]);
  assert.deepEqual(valuesOf("action-0-less-action-2"), [0, 1]);
  assert.deepEqual(attributionChunks(page, target("group-0")), ["action-0", "action-1"], "not stored itself");
  assert.deepEqual(valuesOf("group-0"), [1, 1]);
  assert.deepEqual(valuesOf("taken"), [1, -1]);
  assert.deepEqual(valuesOf("taken-less-mean"), [0.25, -0.75]);
  assert.deepEqual(attributionChunks(page, target("value")), []);
  page.held.delete("action-2");
  assert.equal(targetValues(page, target("taken")), null, "not loaded yet");
  page.held.delete("series");
  assert.deepEqual(attributionChunks(page, target("taken")), ["series"], "which say what is combined");
});

test("the scale of a question is known from those of actions less the policy's mean", () => {
  const { manifest } = policyPage();
  const limits = { "action-0": [9], "action-0-less-mean": [1], "action-1-less-mean": [2], "action-2-less-mean": [4] };
  manifest.layers[0].limits = limits;
  const limitOf = (output) => knownLimit(manifest, { layer: 0, output, trajectory: 0 });
  assert.deepEqual(
    [
      "action-0",
      "action-1-less-mean",
      "log-action-1",
      "action-0-less-action-2",
      "group-0-less-mean",
      "taken-less-mean",
    ].map(limitOf),
    [9, 2, 2, 5, 3, 4],
  );
  assert.deepEqual(["taken", "value"].map(limitOf), [null, null]);
});

test("the strongest features of an image are those with the largest sums of a sign", () => {
  const values = { data: Float32Array.of(3, 0, -9, 5, 1, -9, 5, 0, -9), depth: 3 };
  assert.deepEqual(strongestFeatures({ values, sign: "pos", chosen: [0, 1, 2] }, 2), [0, 1]);
  assert.deepEqual(strongestFeatures({ values, sign: "neg", chosen: [0, 1, 2] }, 2), [2]);
  assert.deepEqual(strongestFeatures({ values, sign: "pos", chosen: [1] }, 2), [1]);
});

test("a channel under the pointer is shown alone, in its own layer only", () => {
  const layer = { channels: 3 };
  const selection = { layer: 1, channels: { 1: [0, 2] }, residual: true };
  assert.deepEqual(shownChannels(selection, layer, 1, null), { chosen: [0, 2], residual: true });
  assert.deepEqual(shownChannels(selection, layer, 1, { layer: 1, channel: 1 }), { chosen: [1], residual: false });
  assert.deepEqual(shownChannels(selection, layer, 1, { layer: 1, channel: 3 }), { chosen: [], residual: true });
  assert.deepEqual(shownChannels(selection, layer, 2, { layer: 1, channel: 1 }), { chosen: [0, 1, 2], residual: true });
});

test("a point moves cell by cell and stays on the image", () => {
  const layer = { height: 4, width: 8 };
  assert.deepEqual(movedPoint({ x: 0.5, y: 0.5 }, layer, "ArrowRight", {}), { x: 5.5 / 8, y: 2.5 / 4 });
  assert.deepEqual(movedPoint({ x: 0.5, y: 0.05 }, layer, "ArrowUp", {}), { x: 4.5 / 8, y: 0.5 / 4 });
  assert.equal(movedPoint({ x: 0.5, y: 0.5 }, layer, "a", {}), null);
});

test("images long unused are dropped, and loaded again when they are needed", async () => {
  const loaded = [];
  globalThis.Image = class {
    naturalWidth = 10;
    naturalHeight = 10;
    set src(name) {
      loaded.push(name);
    }
    decode = async () => {};
  };
  globalThis.createImageBitmap = async () => ({ close() {} });
  globalThis.CSS ??= { escape: (text) => text };
  const images = createImages({ budget: 1000, document: { querySelector: () => null } }); // room for two
  for (const name of ["a", "b", "a", "c", "a", "b"]) await images.image(name);
  assert.deepEqual(loaded, ["a", "b", "c", "b"]);
  delete globalThis.Image;
});

test("images that cannot be decoded are named", async () => {
  globalThis.Image = class {
    decode = () => Promise.reject(new Error("EncodingError"));
  };
  const failed = [];
  const images = createImages({
    onFailed: (name) => failed.push(name),
    budget: 1000,
    document: { querySelector: () => null },
  });
  for (const name of ["a", "b"]) await assert.rejects(images.image(name), /[ab] is missing or damaged/);
  assert.deepEqual(failed, ["a", "b"]);
  delete globalThis.Image;
});

test("an image depends on its chunk, its target and the choices, not on how rows are laid out", () => {
  const layer = { attribution: { v: [["a", "b"]] }, channels: 1, height: 1, width: 1 };
  const manifest = {
    segment: 2,
    layers: [layer],
    trajectories: [{ steps: 3, series: "s" }],
    outputs: [{ id: "v", kind: "value" }],
  };
  const codes = { data: Int8Array.of(1, 2), shape: [2, 1, 1, 1] };
  const chunk = { arrays: { codes, scales: { data: [1, 1] } } };
  const held = new Map([["a", chunk]]);
  const chunks = { peek: (name) => held.get(name) };
  const target = { layer: 0, output: "v", trajectory: 0, frame: 2 };
  const colors = [{ color: "#f00", hue: [1, 0, 0] }];
  const optionsFor = (choices, shown = target) => {
    const selection = { now: { channels: {}, layer: 0, smooth: true, scale: "trajectory", ...choices } };
    return overlayOf({ manifest, chunks, selection }, { target: shown, sign: "pos", isolated: null, colors });
  };
  const same = (a, b) => a.every((part, i) => part === b[i]);
  assert.equal(optionsFor({}), null, "the chunk is not loaded");
  held.set("b", chunk);
  const before = imageKey(optionsFor({}));
  assert.ok(same(imageKey(optionsFor({ columns: true })), before));
  assert.ok(!same(imageKey(optionsFor({ smooth: false })), before));
  assert.ok(!same(imageKey(optionsFor({ mixed: true })), before));
  assert.ok(!same(imageKey(optionsFor({}, { ...target, frame: 1 })), before));
});

test("after a frame comes the next one in the direction of travel, but none beyond the ends", () => {
  const manifest = { trajectories: [{ steps: 3 }] };
  const at = (frame) => ({ trajectory: 0, frame });
  assert.deepEqual(targetAfter(manifest, at(1), 0), at(2));
  assert.deepEqual(targetAfter(manifest, at(1), 2), at(0));
  assert.equal(targetAfter(manifest, at(2), 1), null);
  assert.equal(targetAfter(manifest, at(0), 1), null);
});
