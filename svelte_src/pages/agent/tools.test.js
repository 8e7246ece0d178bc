// Searches, boxes and single features: as values, in addresses, and in what is shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumRegion } from "../../data/region.js";
import { rowSums } from "../../data/series.js";
import { boxAfterKey, boxBetween, middleBox, positionsIn } from "./box.js";
import { nextMatch, searchFromText, searchToText } from "../../data/find.js";
import { chooseChannels, shownChannels, toggleSolo } from "./channels.js";
import { defineSelection } from "../../kit/page/selection.js";
import { FIELDS } from "./fields.js";

const { fromQuery, initialSelection, toQuery } = defineSelection({ fields: FIELDS });

const OBSERVATION = { frame_width: 64, frame_height: 32 };
const MANIFEST = {
  observation: OBSERVATION,
  trajectories: [{ steps: 100 }, { steps: 50 }],
  actions: [{ label: "left" }, { label: "right" }],
  layers: [
    { key: "input", slug: "input", kind: "input", channels: 3 },
    { key: "2b", slug: "2b", kind: "layer", channels: 8 },
  ],
  outputs: [{ id: "value" }, { id: "action-1" }],
};
const START = initialSelection(MANIFEST);

test("a search survives the address; what this page does not have is left out", () => {
  const conditions = [
    { kind: "advantage", compare: "below", value: -1.5 },
    { kind: "jump", compare: "above", value: 2, output: "action-1" },
    { kind: "channel", compare: "above", value: 1e-7, output: "value", layer: 1, channel: 7 },
    { kind: "action", value: 1 },
    { kind: "first" },
    { kind: "bookmark", which: "low" },
  ];
  const selection = { ...START, find: { conditions, trajectory: 1 } };
  const query = toQuery(MANIFEST, selection);
  assert.match(
    decodeURIComponent(query),
    /find=advantage~below~-1.5,jump~above~2~action-1,feature~above~1e-7~value~2b~8/,
  );
  assert.deepEqual(fromQuery(MANIFEST, query), selection);
  const form = { kind: "reward", compare: "above", value: 0, action: 3, channel: 2, output: "value", which: "high" };
  assert.equal(searchToText(MANIFEST, { conditions: [form], trajectory: null }), "reward~above~0");
  const bad = "reward~above~,reward~over~1,action~9,bookmark~best,jump~above~1~none,feature~above~1~value~2b~9,x,in~7";
  assert.equal(searchFromText(MANIFEST, bad), null);
  assert.deepEqual(searchFromText(MANIFEST, `${bad},first`), { conditions: [{ kind: "first" }], trajectory: null });
});

test("the next and the previous match in time, around the ends", () => {
  const matches = [
    [1, 9],
    [0, 50],
    [0, 3],
  ].map(([trajectory, frame]) => ({ trajectory, frame })); // strongest first
  const next = (trajectory, frame, direction) => {
    const match = nextMatch(matches, { trajectory, frame }, direction);
    return [match.trajectory, match.frame];
  };
  assert.deepEqual(
    [next(0, 0, 1), next(0, 3, 1), next(0, 50, 1)],
    [
      [0, 3],
      [0, 50],
      [1, 9],
    ],
  );
  assert.deepEqual(
    [next(1, 9, 1), next(0, 3, -1), next(0, 4, -1)],
    [
      [0, 3],
      [1, 9],
      [0, 3],
    ],
  );
  assert.equal(nextMatch([], { trajectory: 0, frame: 0 }, 1), null);
});

test("a box has whole pixels inside the frame, and moves and grows by keys", () => {
  const box = boxBetween({ x: 0.5, y: 0.99 }, { x: 0.26, y: 0.5 }, OBSERVATION);
  assert.deepEqual(box, { left: 16, top: 16, right: 32, bottom: 32 });
  const point = { x: 1, y: 1 };
  assert.deepEqual(boxBetween(point, point, OBSERVATION), { left: 63, top: 31, right: 64, bottom: 32 });
  assert.deepEqual(boxAfterKey(box, "ArrowLeft", false, OBSERVATION), { ...box, left: 15, right: 31 });
  assert.deepEqual(boxAfterKey(box, "ArrowDown", false, OBSERVATION), box, "it stays inside");
  assert.deepEqual(boxAfterKey(box, "ArrowRight", true, OBSERVATION), { ...box, right: 33 });
  assert.deepEqual(boxAfterKey({ ...box, right: 17 }, "ArrowLeft", true, OBSERVATION), { ...box, right: 17 });
  assert.equal(boxAfterKey(box, "a", false, OBSERVATION), null);
  assert.deepEqual(middleBox(OBSERVATION), { left: 24, top: 12, right: 40, bottom: 20 });
});

test("a box survives the address, unless it is not one of these frames", () => {
  const selection = { ...START, box: { left: 0, top: 4, right: 64, bottom: 9 } };
  assert.match(toQuery(MANIFEST, selection), /&box=0\.4\.64\.9$/);
  assert.deepEqual(fromQuery(MANIFEST, toQuery(MANIFEST, selection)), selection);
  for (const text of ["0.0.65.9", "5.0.5.9", "1.2.3", "a.b.c.d", "-1.0.3.3", ""]) {
    assert.equal(fromQuery(MANIFEST, `?box=${text}`).box, null, text);
  }
});

test("a box has the positions whose centres are inside, and at least one", () => {
  const positions = (left, top, right, bottom, layer) => positionsIn({ left, top, right, bottom }, OBSERVATION, layer);
  const fine = { height: 32, width: 64 };
  const coarse = { height: 4, width: 8 };
  assert.deepEqual(positions(3, 5, 10, 6, fine), [5, 3, 6, 10]);
  assert.deepEqual(positions(0, 0, 64, 32, coarse), [0, 0, 4, 8]);
  assert.deepEqual(positions(4, 4, 12, 12, coarse), [0, 0, 1, 1], "an edge on a centre: the first is in, the last out");
  assert.deepEqual(positions(5, 5, 7, 7, coarse), [0, 0, 1, 1]);
  assert.deepEqual(positions(63, 31, 64, 32, coarse), [3, 7, 4, 8]);
});

test("a layer divides the part of a frame that an observation shows", () => {
  // 32 x 16 of 64 x 32 pixels: columns from 16 to 48, rows from 8 to 24; a position has 4 x 4 pixels
  const observation = { ...OBSERVATION, region: [0.25, 0.25, 0.75, 0.75] };
  const positions = (left, top, right, bottom) =>
    positionsIn({ left, top, right, bottom }, observation, { height: 4, width: 8 });
  assert.deepEqual(positions(0, 0, 64, 32), [0, 0, 4, 8]);
  assert.deepEqual(positions(20, 8, 28, 16), [0, 1, 2, 3]);
  assert.deepEqual(positions(45, 22, 64, 32), [3, 7, 4, 8], "what is outside does not count");
  assert.deepEqual(positions(17, 9, 18, 10), [0, 0, 1, 1]);
  assert.equal(positions(0, 0, 16, 32), null, "beside it");
});

test("sums over a region are those of the decoded values", () => {
  const shape = [2, 2, 3, 2];
  const codes = Int8Array.from({ length: 24 }, (_, i) => ((i * 37) % 255) - 127);
  const scales = Float32Array.of(0.5, 8);
  const value = (n, y, x, k) => {
    const code = codes[((n * 2 + y) * 3 + x) * 2 + k];
    return Math.sign(code) * (code / 127) ** 2 * scales[n];
  };
  const sums = new Float32Array(sumRegion({ codes, shape, scales, region: [0, 1, 2, 3] }));
  for (const n of [0, 1]) {
    for (const k of [0, 1]) {
      const wanted = value(n, 0, 1, k) + value(n, 0, 2, k) + value(n, 1, 1, k) + value(n, 1, 2, k);
      assert.ok(Math.abs(sums[n * 2 + k] - wanted) < 1e-6 * scales[n]);
    }
  }
  assert.deepEqual(Array.from(rowSums({ data: Float32Array.of(1, 2, 3, 4), shape: [2, 2] })), [3, 7]);
});

test("a feature is soloed, and the choice before comes back", () => {
  const selection = {
    now: { ...START, channels: { 1: [0, 1] } },
    change: (patch) => (selection.now = { ...selection.now, ...patch }),
  };
  const page = { manifest: MANIFEST, selection };
  const shown = (isolated = null) => shownChannels(selection.now, MANIFEST.layers[1], 1, isolated);
  const before = shown();
  toggleSolo(page, { layer: 1, channel: 4 });
  assert.deepEqual(shown(), { chosen: [4], residual: false });
  assert.deepEqual(shown({ layer: 1, channel: 2 }).chosen, [2], "the pointer looks at another one");
  assert.deepEqual(shown({ layer: 0, channel: 2 }).chosen, [4]);
  assert.match(decodeURIComponent(toQuery(MANIFEST, selection.now)), /solo=2b~5/);
  assert.deepEqual(fromQuery(MANIFEST, toQuery(MANIFEST, selection.now)), selection.now);
  toggleSolo(page, { layer: 1, channel: 4 });
  assert.deepEqual(shown(), before);
  toggleSolo(page, { layer: 1, channel: 8 });
  assert.deepEqual(shown(), { chosen: [], residual: true });
  assert.deepEqual(fromQuery(MANIFEST, "?solo=2b~residual").solo, { layer: 1, channel: 8 });
  chooseChannels(page, 1, null);
  assert.equal(selection.now.solo, null);
  for (const text of ["2b~9", "2b~0", "input~residual", "9z~1", "2b"]) {
    assert.equal(fromQuery(MANIFEST, `?solo=${text}`).solo, null, text);
  }
});

test("a search for saliency names the method and the output", () => {
  const outputs = [{ id: "policy" }, { id: "value" }];
  const layers = [
    { slug: "2b", channels: 8, kind: "layer" },
    { slug: "perturbation", channels: 2, kind: "saliency", outputs },
  ];
  const manifest = { layers, outputs: [{ id: "value", kind: "value" }], actions: [], trajectories: [{}] };
  const text = "saliency~above~0.5~perturbation~value";
  const search = searchFromText(manifest, text);
  assert.deepEqual(search.conditions, [{ kind: "saliency", compare: "above", value: 0.5, layer: 1, channel: 1 }]);
  assert.equal(searchToText(manifest, search), text);
  assert.equal(searchFromText(manifest, "saliency~above~0.5~2b~value"), null);
  assert.equal(searchFromText(manifest, "saliency~above~0.5~perturbation~greedy"), null);
  assert.equal(searchFromText(manifest, "feature~above~0.5~value~perturbation~1"), null);
});
