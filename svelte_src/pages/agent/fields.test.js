import assert from "node:assert/strict";
import { test } from "node:test";
import { createHistory, record, redo, undo } from "../../kit/shell/history.js";
import { DEFAULT_SETTINGS, cleanSettings } from "../../kit/shell/kept.js";
import { actionOf, allKeys } from "../../kit/shell/keys.js";
import { firstTarget, rowTarget, shownOutputs } from "./rows.js";
import { defineSelection } from "../../kit/page/selection.js";
import { FIELDS, notes } from "./fields.js";

const { changed, fromQuery, initialSelection, notePlaces, placeFromQuery, toQuery } = defineSelection({
  fields: FIELDS,
  notes,
});

const KEYS = allKeys([{ keys: ["[", "]"], action: "trajectory", text: "trajectory" }]);

const MANIFEST = {
  view: { attribution_weight: 0.9 },
  trajectories: [{ steps: 100 }, { steps: 50 }, { steps: 10 }],
  layers: [
    { key: "input", name: "layer input", slug: "input", kind: "input", channels: 3 },
    { key: "1a", name: "layer 1a", slug: "1a", kind: "layer", channels: 8, features: "1a.js" },
    { key: "2 b/é", name: "layer 2 b/é", slug: "2-b", kind: "layer", channels: 8, features: "2b.js" },
    { key: "3a", name: "layer 3a", slug: "3a", kind: "layer", channels: 8, features: "3a.js" },
  ],
  outputs: [{ id: "value" }, { id: "action-3" }, { id: "group-0" }],
};

test("the selection begins at the middle layer, value function, first frame", () => {
  const { layer, rows, trajectory, frame } = initialSelection(MANIFEST);
  assert.deepEqual([MANIFEST.layers[layer].key, rows[0].output, trajectory, frame], ["2 b/é", "value", 0, 0]);
});

test("the selection begins at the layer that the page names", () => {
  assert.equal(initialSelection({ ...MANIFEST, opening: "1a" }).layer, 1);
});

test("a step is compared with the baseline, the mean of its episode, or another step", () => {
  const instead = (query) => fromQuery(MANIFEST, query).instead;
  assert.deepEqual(["", "?instead=mean", "?instead=7", "?instead=x", "?instead=1e9"].map(instead), [
    ...[null, "mean", 6, null, null],
  ]);
  assert.equal(instead("?trajectory=3&instead=500"), 9);
  for (const query of ["instead=mean", "instead=7"])
    assert.ok(toQuery(MANIFEST, fromQuery(MANIFEST, `?${query}`)).includes(query));
});

test("changes stay in range", () => {
  const start = { ...initialSelection(MANIFEST), frame: 90 };
  assert.equal(changed(MANIFEST, start, { trajectory: 1 }).frame, 49);
  assert.equal(changed(MANIFEST, start, { frame: -4 }).frame, 0);
  assert.equal(changed(MANIFEST, start, { layer: 99 }).layer, 3);
});

test("the original's address works", () => {
  const selection = fromQuery(MANIFEST, "?layer=3a&trajectory=2&frame=12");
  assert.deepEqual([selection.layer, selection.trajectory, selection.frame], [3, 1, 11]);
});

test("a selection survives its address", () => {
  const selection = {
    ...initialSelection(MANIFEST),
    layer: 2,
    trajectory: 1,
    frame: 30,
    rows: [
      { output: "action-3", layer: null, trajectory: null },
      { output: "value", layer: 2, trajectory: 0 },
      { output: "value", layer: null, trajectory: 2 },
    ],
    channels: { 2: [0, 7], 1: [3] },
    residual: false,
    mixed: true,
    combined: true,
    overlay: false,
    opacity: 0.5,
    threshold: 0.25,
    smooth: false,
    scale: "frame",
    columns: true,
    visible: 64,
    palette: "safe",
    feature: { layer: 2, channel: 7 },
    names: { "3a": { 2: "coin" } },
  };
  assert.deepEqual(fromQuery(MANIFEST, toQuery(MANIFEST, selection)), selection);
  const other = { ...selection, rows: [], channels: { 2: [] }, feature: { layer: 3, channel: 0 } };
  assert.deepEqual(fromQuery(MANIFEST, toQuery(MANIFEST, other)), other);
});

test("a page with the original's colors opens as the original: hues mixed, no residual, a scale for each trajectory", () => {
  const original = { ...MANIFEST, view: { ...MANIFEST.view, attribution_colors: "mixed" } };
  const pick = ({ mixed, residual, scale }) => ({ mixed, residual, scale });
  assert.deepEqual(pick(initialSelection(original)), { mixed: true, residual: false, scale: "trajectory" });
  const usual = initialSelection(MANIFEST);
  assert.deepEqual(pick(usual), { mixed: false, residual: true, scale: "rows" });
  for (const manifest of [MANIFEST, original]) {
    for (const mixed of [false, true]) {
      const selection = { ...initialSelection(manifest), mixed, residual: mixed };
      assert.deepEqual(fromQuery(manifest, toQuery(manifest, selection)), selection);
    }
  }
});

test("attribution is drawn alone where the frames show another view than the observations", () => {
  const other = { ...MANIFEST, observation: { ...MANIFEST.observation, aligned: false } };
  const selection = initialSelection(other);
  assert.equal(selection.overlay, false);
  const over = { ...selection, overlay: true };
  assert.deepEqual(fromQuery(other, toQuery(other, over)), over);
});

test("an address holds no defaults, and keeps what is not about the selection", () => {
  assert.equal(
    toQuery(MANIFEST, initialSelection(MANIFEST), { embed: "1" }),
    "?embed=1&layer=2+b%2F%C3%A9&trajectory=1&frame=1",
  );
});

test("a link may open a feature", () => {
  const opened = (text) => fromQuery(MANIFEST, text).feature;
  assert.deepEqual(opened("?layer=3a&feature=8"), { layer: 3, channel: 7 });
  assert.deepEqual(opened("?layer=3a&feature=2-b~1"), { layer: 2, channel: 0 });
  for (const text of ["?layer=3a", "?layer=3a&feature=9", "?layer=3a&feature=x", "?layer=input&feature=1"]) {
    assert.equal(opened(text), null);
  }
});

test("going to a place leaves names as they are", () => {
  assert.ok(!("names" in placeFromQuery(MANIFEST, "?layer=3a&name=3a~1~coin")));
});

test("a note on a feature opens it, and has its name", () => {
  const selection = { ...initialSelection(MANIFEST), names: { "3a": { 2: "coin" } } };
  const [view, feature] = notePlaces(MANIFEST, selection, { layer: 3, channel: 1 });
  assert.equal(feature.place, "coin, feature 2 of layer layer 3a");
  assert.deepEqual(fromQuery(MANIFEST, feature.query).feature, { layer: 3, channel: 1 });
  assert.equal(fromQuery(MANIFEST, view.query).feature, null);
});

test("nonsense in an address is passed over", () => {
  const text = "?layer=9z&trajectory=0&frame=abc&rows=none~x~9,action-3~1a&channels=-1.x.2&opacity=7";
  const selection = fromQuery(MANIFEST, text);
  assert.deepEqual([selection.layer, selection.trajectory, selection.frame, selection.opacity], [2, 0, 0, 1]);
  assert.deepEqual(selection.rows, [{ output: "action-3", layer: 1, trajectory: null }]);
  assert.deepEqual(selection.channels, { 2: [1] });
});

test("a row fills in what it leaves to the selection", () => {
  const selection = { ...initialSelection(MANIFEST), frame: 30 };
  const row = { output: "value", layer: 1, trajectory: 2 };
  assert.deepEqual(rowTarget(MANIFEST, selection, row), {
    output: "value",
    layer: 1,
    trajectory: 2,
    frame: 30,
    instead: null,
    past: true,
  });
  assert.equal(rowTarget(MANIFEST, selection, { ...row, trajectory: null }).past, false);
});

test("outputs of rows are listed once", () => {
  assert.deepEqual(shownOutputs({ rows: [{ output: "a" }, { output: "b" }, { output: "a" }] }), ["a", "b"]);
});

test("undo and redo; changes of a kind in quick succession are one", () => {
  let history = createHistory("a");
  history = record(history, "b", "frame", 0);
  history = record(history, "c", "frame", 500);
  history = record(history, "d", "frame", 1400);
  history = record(history, "e", null, 1500);
  history = record(history, "f", null, 1600);
  const seen = [];
  for (let i = 0; i < 4; i += 1) {
    seen.push(history.present);
    history = undo(history);
  }
  assert.deepEqual(seen, ["f", "e", "d", "a"]);
  assert.equal(undo(history), history);
  assert.equal(redo(redo(history)).present, "e");
  assert.deepEqual(record(redo(history), "x", null, 9999).future, []);
});

test("keys act, but not while typing, nor where a control uses them itself", () => {
  const at = (selector) => ({ closest: (list) => (list.split(", ").includes(selector) ? {} : null) });
  const press = (key, target, more = {}) => actionOf(KEYS, { key, target: at(target), ...more })?.action ?? null;
  assert.equal(press("ArrowLeft"), "back");
  assert.equal(press("ArrowLeft", "select"), null);
  assert.equal(press(" "), "toggle");
  assert.equal(press(" ", "button"), null);
  assert.equal(press("ArrowRight", "button"), "forward");
  assert.equal(press("z", null, { ctrlKey: true }), "undo");
  assert.equal(press("Z", null, { ctrlKey: true, shiftKey: true }), "redo");
  assert.equal(press("c", null, { ctrlKey: true }), null);
  assert.equal(press("Escape", "textarea"), "close");
  assert.equal(press("f", null, { defaultPrevented: true }), null);
  assert.equal(actionOf(KEYS, { key: "f", target: at(null) }, false), null);
  assert.equal(actionOf(KEYS, { key: "ArrowLeft", target: at(null) }, false).action, "back");
});

test("an address that asks for nonsense gives what can be shown", () => {
  for (const text of [
    "?layer=%3Cimg%20onerror%3D1%3E&frame=NaN&trajectory=-1&opacity=1e9&threshold=Infinity&scale=__proto__",
    "?frame=999999999999999999999&trajectory=1e400&rows=constructor,__proto__~length~NaN&channels=toString.9999",
    "?rows=%3Cscript%3E&channels=-1.NaN&feature=1e99&%E0%A4%A=&frame=0&frame=5",
  ]) {
    const found = fromQuery(MANIFEST, text);
    assert.ok(found.frame >= 0 && found.frame < MANIFEST.trajectories[found.trajectory].steps, text);
    assert.ok(found.opacity >= 0 && found.opacity <= 1 && found.threshold === 0 && found.scale === "rows");
    assert.ok(found.rows.every(({ output }) => output === "value"));
    assert.equal(found.feature, null);
  }
  assert.ok(fromQuery(MANIFEST, `?rows=${"value,".repeat(9999)}`).rows.length <= 12);
});

test("settings are those that are known, whatever the browser kept", () => {
  assert.deepEqual(cleanSettings({ theme: "dark", totals: "yes", more: 1 }), { ...DEFAULT_SETTINGS, theme: "dark" });
  for (const kept of [null, 3, "dark", [], { theme: "__proto__", palette: {} }])
    assert.deepEqual(cleanSettings(kept), DEFAULT_SETTINGS);
});

test("every key that prints something is off where single letters are", () => {
  for (const { keys, action } of KEYS) {
    const prints = keys[0].length === 1 && keys[0] !== " ";
    assert.equal(actionOf(KEYS, { key: keys[0] }, false)?.action ?? null, prints ? null : action, keys.join(" "));
  }
});

test("what is exported is the first row, at its own layer and trajectory", () => {
  const start = { ...initialSelection(MANIFEST), frame: 30 };
  const row = { output: "group-0", layer: 1, trajectory: 2 };
  const { output, layer, trajectory, past } = firstTarget(MANIFEST, { ...start, rows: [row] });
  assert.deepEqual([output, layer, trajectory, past], ["group-0", 1, 2, true]);
  assert.deepEqual(firstTarget(MANIFEST, { ...start, rows: [] }), rowTarget(MANIFEST, start, start.rows[0]));
});

test("a page without layers has an address, too", () => {
  const manifest = { ...MANIFEST, layers: [] };
  const selection = { ...initialSelection(manifest), frame: 4 };
  assert.equal(toQuery(manifest, selection), "?trajectory=1&frame=5");
  const text = "?layer=3a&trajectory=1&frame=5&channels=1&feature=2&name=3a~1~coin";
  assert.deepEqual(fromQuery(manifest, text), selection);
  assert.deepEqual(notePlaces(manifest, selection, null), [
    { place: "trajectory 1, frame 5", query: "?trajectory=1&frame=5" },
  ]);
});
