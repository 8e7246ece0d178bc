// Numbers and words of the tabs: matrices, curves, verdicts and tables.
import assert from "node:assert/strict";
import { test } from "node:test";
import { signedColor } from "../../kit/image/colors.js";
import { agreement, consistencyAt, intervalAt, limitOf, matrixAt } from "./causes.js";
import {
  correlationsOf,
  cosinesOf,
  directionTable,
  isUnstable,
  orderOf,
  placesOf,
  stabilityText,
  strongest,
} from "./directions.js";
import { curveOf, halfLag } from "./replay.js";
import { readMemory } from "./sections.js";
import { errorVerdicts, otherVerdicts } from "./simulator.js";
import { interventionText } from "./interventions.js";
import { interventionTable, loadTable, tablesOf } from "./tables.js";

const array = (shape, list) => ({ shape, data: Float32Array.from(list) });
const count = (shape) => array(shape, Array(shape.reduce((a, b) => a * b)).keys());

test("entry [l, i, j] of a cluster is read from its place", () => {
  const arrays = {
    correlation: count([2, 3, 3]),
    "correlation.by": count([4, 2, 3, 3]),
    "correlation.interval": count([2, 3, 3, 2]),
  };
  assert.equal(matrixAt(arrays, "correlation", 1)[2 * 3 + 1], 9 + 7);
  assert.equal(matrixAt(arrays, "correlation", 1, 3)[2 * 3 + 1], 3 * 18 + 9 + 7);
  assert.deepEqual(intervalAt(arrays, 1, null, 7), [32, 33]);
  assert.equal(intervalAt(arrays, 1, 0, 7), null);
  assert.equal(matrixAt(arrays, "influence", 0), null);
});

test("the diagonal does not set the scale of a matrix", () => {
  assert.equal(limitOf(Float32Array.of(0.9, -0.25, 0.125, 0.8)), 0.25);
  assert.equal(limitOf(Float32Array.of(0.5, 0, 0, 0.5)), 0.5, "unless nothing else is there");
});

test("matrices agree where signs are the same and both are large", () => {
  const first = Float32Array.of(1, -1, 0.05, 0.5);
  const second = Float32Array.of(0.2, -0.1, 0.2, -0.2);
  assert.deepEqual([...agreement(first, second, 0.2)], [1, -1, 0, 0]);
  assert.deepEqual([...agreement(first, second, 0)], [1, -1, 1, 0]);
  assert.deepEqual([...agreement(first, second, 0.6)], [1, 0, 0, 0]);
});

test("shares of signs that agree, of all steps and of a cluster", () => {
  const arrays = {
    "consistency.share": array([2], [0.75, 0.5]),
    "consistency.null": array([2, 2], [0.25, 0.5, 0.375, 0.625]),
    "consistency.by.share": array([2, 2], [0, 0, 1, 0.25]),
  };
  assert.deepEqual(consistencyAt(arrays), { share: [0.75, 0.5], low: [0.25, 0.375], high: [0.5, 0.625], p: null });
  assert.deepEqual(consistencyAt(arrays, 1).share, [1, 0.25]);
  assert.equal(consistencyAt({}), null);
});

test("low stability is said in words", () => {
  assert.match(
    stabilityText({ seed_stability: 0.95, half_stability: 0.9, fits: [0.94, 0.96, 0.85, 0.95] }),
    /^Stable.*0.95 over seeds \(0.94 and 0.96\), 0.90 over halves of the episodes \(0.85 and 0.95\)/,
  );
  assert.match(
    stabilityText({ seed_stability: 0.95, half_stability: 0.4 }),
    /^Low stability: fits with halves of the episodes/,
  );
  assert.match(stabilityText({ seed_stability: null }), /not measured/);
  assert.equal(isUnstable({ seed_stability: 0.6 }), true);
  assert.equal(isUnstable({ seed_stability: null, half_stability: 0.8 }), false);
});

test("directions are in the order of their effect on the policy, rare ones last", () => {
  const directions = [
    { name: "ICA 1", effect: 0.1, effect_interval: [0.05, 0.2] },
    { name: "ICA 2", effect: 0.3, effect_interval: [0.2, 0.4] },
    { name: "ICA 3 (rare)", effect: 0.9, effect_interval: [0.8, 1], rare: true },
  ];
  assert.deepEqual(orderOf(directions), [1, 0, 2]);
  assert.deepEqual(orderOf([{}, {}, { rare: false }]), [0, 1, 2]);
  const { columns, rows } = directionTable({ states: { directions }, arrays: null, label: (k) => `${k}`, actions: [] });
  assert.ok(columns.some(({ key }) => key === "effect"));
  assert.deepEqual(
    rows.map(({ index, effect_low: low }) => [index, low]),
    [
      [1, 0.2],
      [0, 0.05],
      [2, 0.8],
    ],
  );
});

test("correlations and cosines, the strongest first", () => {
  const arrays = {
    "correlation.time": array([2], [0.25, -0.5]),
    "correlation.action": array([2, 2], [0, 0.125, 0.75, 0]),
    cosine: array([3, 3], [1, 0.25, -0.5, 0.25, 1, 0, -0.5, 0, 1]),
  };
  const found = strongest(correlationsOf(arrays, 1, [{ label: "left" }]), 2);
  assert.deepEqual(
    found.map(({ label, value }) => [label, value]),
    [
      ["action left", 0.75],
      ["time in the episode", -0.5],
    ],
  );
  assert.deepEqual(cosinesOf(arrays, 0), [
    { index: 2, value: -0.5 },
    { index: 1, value: 0.25 },
  ]);
  assert.deepEqual(placesOf(array([2, 2, 2], [0, 1, 2, 3, 4, 5, -1, -1]), 1), [{ trajectory: 4, frame: 5 }]);
});

test("the lag at which a change has lost half of its effect", () => {
  assert.equal(halfLag([0.8, 0.5, 0.4, 0.3]), 3);
  assert.equal(halfLag([0, 0.8, 0.9, 0.4]), 3, "after the largest change");
  assert.equal(halfLag([0.8, 0.7]), null);
  const arrays = { policy: array([2, 2], [1, 2, 3, 4]), policy_interval: array([2, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7]) };
  assert.deepEqual(curveOf(arrays, "policy", 1), { values: [3, 4], low: [4, 6], high: [5, 7] });
});

test("verdicts on a simulator name the horizons", () => {
  const errors = {
    frame: {
      posterior: [[1, 1, 1, 1, null]],
      prior: [[3, 1, 2, 1, null]],
      closed_loop: [[3, 3, 3, 3, null]],
      last_frame: [[2, 2, 3, 1, null]],
    },
  };
  const texts = errorVerdicts(errors, "frame").map(({ text, good }) => `${text}: ${good}`);
  assert.deepEqual(texts, [
    "prior beats the copy of the last frame at horizons 2 to 3 of 4: false",
    "closed loop beats the copy of the last frame at no horizon: false",
    "the posterior's error is at most the prior's at all 4 horizons: true",
    "the prior's error is at most the closed loop's at all 4 horizons: true",
  ]);
  const differences = [{ smaller: "posterior", larger: "prior", difference: 0.75, interval: [0.5, 1] }];
  assert.match(
    errorVerdicts(errors, "frame", differences)[2].text,
    /horizons; mean difference 0\.75 \(95.% interval 0\.50 to 1\.0\)$/,
  );
  assert.deepEqual(errorVerdicts(errors, "reward"), []);
  const compass = {
    ...{ actions: ["left", "jump", "none"], agreement: [0.9, 0.5, null] },
    agreement_interval: [[0.7, 0.97], [0.3, 0.7], [null, null]],
  }; // prettier-ignore
  const deletion = { difference: 0.25, interval: [0.1, 0.4] };
  const others = otherVerdicts({ quality: { auc: 0.9, auc_interval: [0.85, 0.94], deletion }, compass });
  assert.deepEqual(
    others.map(({ good }) => good),
    [true, false, false, true],
  );
  assert.match(others[0].text, /left 90.% \(70.% to 97.%\)$/);
  assert.match(others[2].text, /AUC of 0\.90 \(0\.85 to 0\.94\) \(0\.5/);
  assert.match(others[3].text, /by 0.250 \(0.100 to 0.400\)/);
});

test("a share of the full color", () => {
  assert.deepEqual(signedColor(0, "light"), [255, 255, 255]);
  assert.deepEqual(signedColor(1, "light"), signedColor(7, "light"));
  assert.notDeepEqual(signedColor(-1, "dark"), signedColor(1, "dark"));
});

test("tables of a tab have what the page has", async () => {
  const replay = { changes: ["reset", "frozen"], chunk: "memory.js" };
  const memory = { states: { memory: replay, causes: null }, interventions: null, simulator: null };
  assert.deepEqual(tablesOf(memory, "remembering"), ["memory"]);
  assert.deepEqual(
    ["causes", "interventions", "simulator"].map((tab) => tablesOf(memory, tab)),
    [[], [], []],
  );
  const arrays = { policy: array([2, 1], [0.5, 0.25]), same_action: array([2, 1], [1, 0.75]) };
  const page = { memory, chunks: { get: async () => ({ arrays }) } };
  const { rows } = await loadTable(page, "memory", String);
  assert.deepEqual(rows[1], { change: "frozen", steps: 0, policy: 0.25, same_action: 0.75 });
});

test("actions and clusters have one name on the page", () => {
  const measures = ["return", "action 0: no-op", "action 2: LEFT UP", "cluster 0", "no cluster"];
  const sections = {
    states: { outputs: ["", "", "LEFT UP", "value function"] },
    state_map: { colors: [{ key: "action", names: ["left up"] }, { key: "value" }] },
    interventions: { interventions: [{ rows: measures.map((measure) => ({ measure, interval: [-1, 2] })) }] },
    simulator: { compass: { actions: ["none", "RIGHT", "LEFT+UP"] } },
  };
  const memory = readMemory({
    actions: ["no-op", "\u2192", "\u2196"].map((label, k) => ({ label, color: `#00000${k}` })),
    sections: Object.entries(sections).map(([kind, data]) => ({ kind, data })),
  });
  assert.deepEqual(memory.states.outputs, ["action no-op", "action \u2192", "action \u2196", "value function"]);
  const hues = ["#000000", "#000001", "#000002"];
  assert.deepEqual(memory.stateMap.colors, [
    { key: "action", names: ["no-op", "\u2192", "\u2196"], hues },
    { key: "value" },
  ]);
  assert.deepEqual(memory.simulator.compass.actions, ["no-op", "\u2192", "\u2196"]);
  assert.equal(memory.windows, null);
  const table = interventionTable(memory.interventions.interventions[0]);
  assert.deepEqual(
    table.rows.map(({ measure }) => measure),
    ["return", "action no-op", "action \u2196", "cluster 1", "no cluster"],
  );
  assert.equal(table.rows[0].range, "(\u22121.00 to +2.00)");
});

test("an intervention says what its primary measure shows, or what would have been found", () => {
  const row = (difference, p, half = 1) => ({
    ...{ measure: "return", unedited: 5, edited: 5 + difference, difference, p, adjusted_p: 1 },
    interval: [difference - half, difference + half],
  });
  const text = (one, pairs) => interventionText({ label: "PCA 1 collapsed", rows: [one] }, pairs);
  assert.match(text(row(2.5, 0.125), 4), /difference 2\.50 .* smallest possible p is 0\.125/);
  assert.match(text(row(2.5, 0.002), 10), /p 0\.0020 for this measure alone\. It changes beyond chance\.$/);
  assert.match(text(row(0.1, 0.8), 10), /No change was found; a true change of 1\.4 or more would have been found/);
  assert.match(text(row(0, 1, 0), 10), /No change was found; the return was the same in both episodes of each pair\./);
});
