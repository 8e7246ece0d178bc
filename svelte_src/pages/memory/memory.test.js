import assert from "node:assert/strict";
import { test } from "node:test";
import { inDeviations, labelBand } from "./paint.js";
import { choose } from "./directions.js";
import { defineSelection } from "../../kit/page/selection.js";
import { FIELDS, notes } from "./fields.js";
import {
  causes,
  explanation,
  gridAt,
  gridCenters,
  listed,
  nearestWindow,
  pathsOf,
  reasons,
  showWindow,
  strengths,
  windowAt,
} from "./windows.js";

const { changed, fromQuery, initialSelection, notePlaces, toQuery } = defineSelection({ fields: FIELDS, notes });

const DIRECTIONS = ["ICA 1", "ICA 2", "ICA 3"].map((name) => ({ name, scale: 1 }));
const WINDOWS = [
  { trajectory: 0, first: 5, frame: 15, targets: ["value"], why: [{ kind: "episode" }] },
  { trajectory: 0, first: 10, frame: 20, targets: ["value"], why: [{ kind: "behaviour", behaviour: 1 }] },
  { trajectory: 1, first: 0, frame: 8, targets: [], why: [{ kind: "direction", direction: 2, end: "top" }] },
];
const label = (k) => DIRECTIONS[k].name;

const manifestOf = ({ paths = ["memory", "whole"], windows = WINDOWS } = {}) => ({
  trajectories: [{ steps: 40 }, { steps: 30 }],
  named: { layers: [] },
  memory: {
    states: { directions: DIRECTIONS, behaviours: { count: 2 } },
    windows: { targets: [{ id: "value" }, { id: "action" }], paths, windows },
  },
});

function pageOf(manifest) {
  const page = { manifest, selection: { now: initialSelection(manifest) } };
  page.selection.change = (patch) => (page.selection.now = changed(manifest, page.selection.now, patch));
  return page;
}

test("a window stays shown while it holds the step", () => {
  const { selection } = pageOf(manifestOf());
  assert.deepEqual([selection.now.window, selection.now.frame], [0, 15]);
  assert.equal(selection.change({ frame: 12 }).window, 0, "the other one holds this step, too");
  assert.equal(selection.change({ frame: 18 }).window, 1);
  assert.equal(selection.change({ frame: 12 }).window, 1);
  assert.equal(selection.change({ frame: 30 }).window, -1);
  assert.equal(selection.change({ trajectory: 1, frame: 3 }).window, 2);
  assert.deepEqual([windowAt(WINDOWS, 0, 14), windowAt(WINDOWS, 0, 18), windowAt(WINDOWS, 1, 20)], [0, 1, -1]);
  assert.deepEqual([nearestWindow(WINDOWS, 0, 39), nearestWindow(WINDOWS, 2, 0)], [1, -1]);
});

test("the page opens on the action where the first window is of a decision", () => {
  const decision = { ...WINDOWS[0], why: [{ kind: "decision" }] };
  assert.equal(initialSelection(manifestOf()).target, "value");
  assert.equal(initialSelection(manifestOf({ windows: [decision] })).target, "action");
});

test("the page opens on the component whose removal changes the policy most", () => {
  const manifest = manifestOf();
  const effects = [0.1, 0.2, 0.3].map((effect, k) => ({ name: `${k}`, effect, rare: k === 2 }));
  manifest.memory.states = { ...manifest.memory.states, directions: effects };
  assert.deepEqual(initialSelection(manifest).components, [1]);
});

test("a chosen window leads to its explained step", () => {
  const page = pageOf(manifestOf());
  page.selection.change({ frame: 12 });
  showWindow(page, 0);
  assert.deepEqual([page.selection.now.window, page.selection.now.frame], [0, 15]);
});

test("selections stay in range", () => {
  const manifest = manifestOf({ paths: ["memory"] });
  const wild = { trajectory: 9, frame: 99, components: [7, "x"], behaviour: 5, target: "x", path: "whole", tab: "x" };
  const { trajectory, frame, components, behaviour, target, path, tab } = changed(
    manifest,
    initialSelection(manifest),
    wild,
  );
  assert.deepEqual([trajectory, frame, components, behaviour], [1, 29, [0], 1]);
  assert.deepEqual([target, path, tab], ["value", "memory", "components"]);
  assert.deepEqual(pathsOf(manifestOf()), ["memory", "whole", "world"]);
});

test("a component is looked at, or gets a track", () => {
  const page = pageOf(manifestOf());
  const after = (...more) => (choose(page, ...more), page.selection.now.components);
  assert.deepEqual(after(2), [2]);
  assert.deepEqual(after(1, true), [2, 1]);
  assert.deepEqual(after(1), [1, 2]);
  assert.deepEqual(after(0), [0, 2]);
  assert.deepEqual(after(2, true), [0]);
  assert.deepEqual(after(0, true), [0], "the last one stays");
});

test("addresses hold the selection", () => {
  const manifest = manifestOf();
  const { selection } = pageOf(manifest);
  assert.equal(toQuery(manifest, selection.now), "?episode=1&step=16");
  selection.change({ frame: 17 }); // the second window
  selection.change({ frame: 12, components: [2, 0], target: "action", path: "world", tab: "causes", search: "a b" });
  const query = toQuery(manifest, selection.now);
  assert.deepEqual(fromQuery(manifest, query), selection.now);
  assert.match(query, /explained=21/);
  assert.deepEqual(fromQuery(manifest, "?episode=x&step=-3&components=a.b&path=no"), {
    ...initialSelection(manifest),
    frame: 0,
    window: -1,
  });
  assert.equal(notePlaces(manifest, selection.now)[0].place, "episode 1, step 13");
});

test("the chooser lists windows by choice, step and search", () => {
  const start = initialSelection(manifestOf());
  const list = (patch) => listed(WINDOWS, { ...start, ...patch }, label);
  assert.deepEqual(list({}), [0, 1, 2]);
  assert.deepEqual(list({ choice: "episode", trajectory: 1 }), [2]);
  assert.deepEqual(list({ choice: "behaviour", behaviour: 1 }), [1]);
  assert.deepEqual(list({ choice: "direction", components: [2] }), [2]);
  assert.deepEqual(list({ choice: "direction", components: [2], end: "bottom" }), []);
  assert.deepEqual(list({ when: "now", trajectory: 0, frame: 18 }), [1]);
  assert.deepEqual(list({ search: "step 16" }), [0]);
  assert.deepEqual(list({ search: "ica high" }), [2]);
  assert.deepEqual(list({ search: "1" }), [0, 1], "a number is a whole number of the text");
  assert.equal(reasons(WINDOWS[2], label), "ICA 3 high");
});

test("codes become values, and the world is what the whole adds to memory", () => {
  const codes = (...numbers) => ({ data: Int8Array.of(...numbers), shape: [1, 2, 1, 2] });
  const components = (...numbers) => ({ data: Float32Array.of(...numbers), shape: [1, 2, 2] });
  const scale = (number) => ({ data: Float32Array.of(number), shape: [1] });
  const arrays = {
    memory: codes(127, -127, 0, 0),
    "memory.scale": scale(2),
    "memory.components": components(1, 2, 3, 4),
    whole: codes(127, 127, 0, 127),
    "whole.scale": scale(4),
    "whole.components": components(1, 1, 1, 1),
  };
  const on = (path) => explanation(arrays, WINDOWS[0], "value", path);
  assert.deepEqual([...on("memory").values], [2, -2, 0, 0]);
  assert.deepEqual([...on("world").values], [2, 6, 0, 4]);
  assert.equal(on("world").largest, 6);
  const strongAtTheEnd = { memory: codes(1, 0, 127, 0), "memory.scale": scale(127) };
  assert.equal(explanation(strongAtTheEnd, WINDOWS[0], "value", "memory").largest, 1, "before the explained step");
  assert.deepEqual([...on("world").components], [0, -1, -2, -3]);
  assert.deepEqual(causes(on("memory")), [4, 6]);
  assert.deepEqual(causes(on("memory"), 1), [3, 4]);
  assert.deepEqual(strengths(on("memory")), [
    { raises: 2, lowers: 2 },
    { raises: 0, lowers: 0 },
  ]);
  assert.deepEqual([...gridAt(on("whole"), 1).data], [0, 4]);
  assert.equal(explanation(arrays, WINDOWS[0], "action", "memory"), null);
  assert.deepEqual(gridCenters([2, 1, 2], [0.5, 0, 1, 1]), { rows: [0.75], columns: [0.25, 0.75] });
});

test("coordinates are in standard deviations, and labels make a band", () => {
  const coordinates = { data: Float32Array.of(2, 4, 6, 8), shape: [2, 2] };
  assert.deepEqual([...inDeviations({ coordinates }, "1 4")], [1, 2]);
  assert.deepEqual([...labelBand(Int32Array.of(1, -1, 0)).data], [0, 1, 0, 0, 1, 0]);
});
