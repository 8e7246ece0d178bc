import assert from "node:assert/strict";
import { test } from "node:test";
import { defineSelection } from "../../kit/page/selection.js";
import { shownRanges } from "./axes.js";
import { brush } from "./brushing.js";
import { episodeLengths, problemWith, readCheckpoints, readReference, unfinished } from "./checkpoints.js";
import { FIELDS, notes } from "./fields.js";
import { positionsOf, totalsOf } from "./maps.js";
import { numbersTable } from "./table.js";

const { changed, initialSelection } = defineSelection({ fields: FIELDS, notes });
const array = (Type, shape, ...data) => ({ data: Type.from(data), shape });
const CENTERS = { rows: [0.25, 0.75], columns: [0.25, 0.75] };
const section = (kind, agent, data) => ({ kind, agent, data });
const agents = ["agent-1", "agent-2"].map((id) => ({ id, actions: [{ label: "a" }, { label: "b" }], observation: {} }));
const played = (agent, steps) => [
  section("trajectories", agent, { trajectories: [{ steps, series: `${agent}.js` }] }),
  section("saliency", agent, {
    every: 2,
    methods: [{ name: "jacobian", centers: CENTERS, maps: [[`${agent}-m.js`]] }],
  }),
];
const entry = (agent, name) => ({ agent, name, step: 1, returns: { mean: 2, error: 1, episodes: 3 }, entropy: 0.5 });
const MANIFEST = {
  agents,
  complete: true,
  missing: [],
  sections: [
    ...played("agent-1", 4),
    ...played("agent-2", 6),
    section("training", "agent-2", {
      checkpoints: [entry("agent-1", "first"), entry("agent-2", "last")],
      reference: { agent: "agent-2", trajectory: 0, shown: [], divergence: "divergence.js" },
    }),
  ],
};
const checkpoints = readCheckpoints(MANIFEST);
const reference = readReference(MANIFEST, checkpoints);
const TRAINING = { ...MANIFEST, checkpoints, reference, lengths: episodeLengths(checkpoints, reference) };
const seriesOf = (...values) => ({
  actions: array(Int32Array, [values.length], ...values.map((_, t) => t % 2)),
  rewards: array(Float32Array, [values.length], ...values),
  firsts: array(Uint8Array, [values.length], ...values.map((_, t) => Number(t === 0))),
  values: array(Float32Array, [values.length], ...values),
});
const MAPS = {
  arrays: {
    steps: array(Int32Array, [2], 0, 2),
    "codes.value": array(Uint8Array, [2, 2, 2], 255, 0, 0, 0, 0, 30, 0, 10),
    "totals.value": array(Float32Array, [2], 1, 3),
  },
};
const PLAYS = [
  { series: seriesOf(1, 2, 3, 4), maps: MAPS },
  { series: seriesOf(0, 0, 0, 0, 0, 9), maps: null },
];

/** What `brush` uses of a page. */
function page(patch = {}) {
  const selection = {
    now: changed(TRAINING, initialSelection(TRAINING), patch),
    change: (next) => (selection.now = changed(TRAINING, selection.now, next)),
  };
  return { manifest: TRAINING, selection, plays: { now: PLAYS } };
}

test("brushes have their ends in order, and each axis one", () => {
  const one = page();
  brush(one, "value", [3, 1]);
  brush(one, "step", [0, 2]);
  assert.deepEqual(one.selection.now.brushes, { value: [1, 3], step: [0, 2] });
  brush(one, "value", null);
  assert.deepEqual(one.selection.now.brushes, { step: [0, 2] });
});

test("the step moves to the nearest one that a brush holds", () => {
  const one = page({ chosen: [0, 1], step: 0 });
  brush(one, "value", [3, 5]);
  assert.equal(one.selection.now.step, 2);
  brush(one, "value", [8, 10]);
  assert.equal(one.selection.now.step, 5, "of the other checkpoint");
  brush(one, "value", [100, 200]);
  assert.equal(one.selection.now.step, 5, "nothing is held");
  brush(one, "value", null);
  assert.equal(one.selection.now.step, 5);
});

test("numbers are means over the steps that brushes hold", () => {
  const rowOf = (brushes) => numbersTable(TRAINING, page({ brushes }).selection.now, PLAYS).rows[0];
  assert.deepEqual([rowOf({}).held, rowOf({}).entropy, rowOf({}).return], [undefined, 0.5, 2]);
  const held = rowOf({ value: [2, 4] });
  assert.deepEqual([held.held, held.value, held.return, held["total-value"]], [3, 3, 2, 3]);
  assert.ok(Math.abs(held.actions - (Math.log(3) - (2 / 3) * Math.log(2))) < 1e-12);
  assert.deepEqual([held["share-value-1"], held["share-value-3"]], [0.75, 0.25]);
  const { columns } = numbersTable(TRAINING, page({ brushes: { value: [2, 4] } }).selection.now, PLAYS);
  assert.ok(columns.some(({ key }) => key === "held"));
});

test("brushes mark the steps of the shown episode at which a chosen checkpoint's numbers are within them", () => {
  const values = (...numbers) => ({ arrays: { values: array(Float32Array, [numbers.length], ...numbers) } });
  const shown = [values(0, 5, 0, 5, 0, 0), values(5, 0, 0, 0, 0, 5)];
  const rangesOf = (brushes, chosen) =>
    shownRanges(TRAINING, page({ brushes, chosen }).selection.now, PLAYS[1].series, shown);
  assert.deepEqual(rangesOf({}, [0]), []);
  assert.deepEqual(rangesOf({ value: [4, 6] }, [0]), [
    [1, 1],
    [3, 3],
  ]);
  assert.deepEqual(rangesOf({ value: [4, 6] }, [0, 1]), [
    [0, 1],
    [3, 3],
    [5, 5],
  ]);
  assert.deepEqual(rangesOf({ value: [4, 6], step: [0, 2] }, [0]), [[1, 1]]);
  assert.deepEqual(rangesOf({ reward: [9, 9] }, [0]), [[5, 5]], "the episode's own rewards");
  assert.deepEqual(shownRanges(TRAINING, page({ brushes: { value: [4, 6] } }).selection.now, null, []), [], "loading");
});

test("totals and positions are those of the maps", () => {
  const regions = { rows: 1, columns: 1, boxes: [], names: {} };
  assert.deepEqual([...totalsOf(MAPS, "value")], [1, 3]);
  const { x, y } = positionsOf(MAPS, "value", CENTERS, regions, 0);
  assert.deepEqual(
    [[...x], [...y]],
    [
      [0.25, 0.75],
      [0.25, 0.375],
    ],
  );
});

test("an unfinished page shows the checkpoints that are done, and names the others", () => {
  const all = (missing) => {
    const manifest = { ...MANIFEST, complete: false, missing };
    const read = readCheckpoints(manifest);
    return { ...manifest, checkpoints: read, reference: readReference(manifest, read) };
  };
  const half = all(["agent-2-m.js", "divergence.js"]);
  assert.deepEqual([half.checkpoints.map(({ done }) => done), half.reference], [[true, false], null]);
  assert.equal(problemWith(half), null);
  assert.match(unfinished(half), /^1 of 2 checkpoints are done. Not computed yet: last, the comparison on one/);
  assert.deepEqual(initialSelection({ ...half, lengths: [4] }).chosen, [0]);
  const none = all(["agent-1.js", "agent-2.js"]);
  assert.match(problemWith(none), /^This page is unfinished. 0 of 2 checkpoints are done/);
  assert.doesNotMatch(problemWith({ ...none, sections: [] }), /missing/);
});
