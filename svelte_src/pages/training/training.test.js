import assert from "node:assert/strict";
import { test } from "node:test";
import { joinMaps } from "../../data/saliency.js";
import { stepsText } from "../../kit/shell/format.js";
import { frameAt, hasEnded, stepOf } from "../../kit/time/align.js";
import { axesOf, brushedSteps, maskOf, playColumns } from "./axes.js";
import { choose, episodeLengths, letterOf, methodsOf, readCheckpoints, readReference } from "./checkpoints.js";
import { defineSelection } from "../../kit/page/selection.js";
import { FIELDS, notes } from "./fields.js";

const { changed, fromQuery, initialSelection, notePlaces, toQuery } = defineSelection({ fields: FIELDS, notes });

const array = (Type, shape, ...data) => ({ data: Type.from(data), shape });
const CENTERS = { rows: [0.1, 0.3, 0.5, 0.7], columns: [0.25, 0.75] };
const METHOD = { name: "perturbation", centers: CENTERS, maps: [["a.js"]] };

const section = (kind, agent, data) => ({ kind, agent, data });
const MANIFEST = {
  agents: [
    { id: "agent-1", actions: [{ label: "left" }, { label: "right" }], observation: { frame_width: 4 } },
    { id: "agent-2", actions: [], observation: {} },
  ],
  sections: [
    section("trajectories", "agent-1", { segment: 64, trajectories: [{ steps: 5 }, { steps: 3 }] }),
    section("saliency", "agent-1", { every: 2, methods: [METHOD] }),
    section("trajectories", "agent-2", { segment: 64, trajectories: [{ steps: 11 }] }),
    section("training", "agent-2", {
      checkpoints: [
        { agent: "agent-1", name: "first", step: 100 },
        { agent: "agent-2", name: "last", step: 20000 },
      ],
      reference: { agent: "agent-2", trajectory: 0, shown: [] },
    }),
  ],
};
const checkpoints = readCheckpoints(MANIFEST);
const reference = readReference(MANIFEST, checkpoints);
const TRAINING = { checkpoints, reference, lengths: episodeLengths(checkpoints, reference) };

const SERIES = {
  actions: array(Int32Array, [4], 0, 1, 1, 0),
  rewards: array(Float32Array, [4], 0, 1, 0, 2),
  firsts: array(Uint8Array, [4], 1, 0, 0, 0),
  values: array(Float32Array, [4], 1, 2, 3, 4),
  advantages: array(Float32Array, [4], 0, 0.5, -0.5, 0),
  probabilities: array(Float32Array, [4, 2], 0.5, 0.5, 1, 0, 0.25, 0.75, 0.75, 0.25),
};
const MAPS = joinMaps([
  {
    arrays: {
      steps: array(Int32Array, [1], 0),
      "codes.value": array(Uint8Array, [1, 4, 2], 255, 0, 0, 0, 0, 0, 0, 0),
    },
  },
  {
    arrays: {
      steps: array(Int32Array, [1], 2),
      "codes.value": array(Uint8Array, [1, 4, 2], 10, 0, 0, 0, 0, 0, 20, 10),
    },
  },
]);

test("each checkpoint has its own agent, episodes and maps", () => {
  assert.deepEqual(
    checkpoints.map(({ manifest, saliency }) => [
      manifest.actions.length,
      manifest.trajectories.length,
      saliency?.every,
    ]),
    [
      [2, 2, 2],
      [0, 1, undefined],
    ],
  );
  assert.deepEqual([reference.checkpoint.index, reference.steps], [1, 11]);
  assert.deepEqual(methodsOf(checkpoints), [METHOD]);
  assert.equal(readReference({ ...MANIFEST, sections: [] }, []), null);
});

test("time runs as long as the longest play of an episode", () => {
  assert.deepEqual(TRAINING.lengths, [11, 11]);
  assert.deepEqual(episodeLengths(checkpoints, null), [11, 3]);
});

test("letters go on after Z, and numbers of steps are short", () => {
  assert.deepEqual([0, 1, 25, 26, 27, 52].map(letterOf), ["A", "B", "Z", "AA", "AB", "BA"]);
  assert.deepEqual(
    [5000, 163840, 4e6, null].map((step) => stepsText(step, "frames")),
    ["5000 frames", "163.8 k frames", "4 M frames", ""],
  );
});

test("by step a shorter episode stays at its end, by progress all begin and end together", () => {
  assert.deepEqual(
    [0, 3, 4, 9].map((step) => frameAt("step", step, 5, 11)),
    [0, 3, 4, 4],
  );
  assert.deepEqual(
    [0, 5, 10].map((step) => frameAt("progress", step, 5, 11)),
    [0, 2, 4],
  );
  assert.deepEqual([hasEnded("step", 5, 5), hasEnded("step", 4, 5), hasEnded("progress", 9, 5)], [true, false, false]);
  for (let frame = 0; frame < 5; frame += 1) {
    assert.equal(frameAt("progress", stepOf("progress", frame, 5, 11), 5, 11), frame, "a click shows its own frame");
  }
  assert.equal(frameAt("progress", 0, 1, 1), 0);
});

test("the first and the last checkpoint are chosen at first; changes stay in range", () => {
  const start = initialSelection(TRAINING);
  assert.deepEqual([start.chosen, start.method], [[0, 1], "perturbation"]);
  const next = changed(TRAINING, start, { step: 99, episode: 7, chosen: [1, 9, 1], sync: "x", opacity: 7, window: 0 });
  assert.deepEqual(
    [next.step, next.episode, next.chosen, next.sync, next.opacity, next.window],
    [10, 1, [1], "step", 1, 1],
  );
  assert.deepEqual(changed(TRAINING, start, { chosen: [] }).chosen, [0, 1], "one is always chosen");
});

function page(now) {
  const selection = { now, change: (patch) => (selection.now = changed(TRAINING, selection.now, patch)) };
  return { selection };
}

test("a click chooses A, a second kind of click adds or removes", () => {
  const one = page(initialSelection(TRAINING));
  choose(one, 1, false);
  assert.deepEqual(one.selection.now.chosen, [1]);
  choose(one, 0, true);
  assert.deepEqual(one.selection.now.chosen, [1, 0]);
  choose(one, 1, true);
  assert.deepEqual(one.selection.now.chosen, [0]);
});

test("a selection survives its address", () => {
  const selection = changed(TRAINING, initialSelection(TRAINING), {
    chosen: [1, 0],
    episode: 1,
    step: 7,
    sync: "progress",
    overlay: "policy",
    scale: "all",
    output: "policy",
    opacity: 0.5,
    threshold: 0.25,
    sure: 0.9,
    regions: { rows: 3, columns: 1, boxes: [[0.25, 0, 0.5, 1]], names: { 0: "the ball" } },
    region: 0,
    window: 4,
    path: true,
    brushes: { step: [2, 6], value: [-1.5, 2] },
    axes: ["value", "step"],
    visible: 16,
  });
  assert.deepEqual(fromQuery(TRAINING, toQuery(TRAINING, selection)), selection);
  assert.equal(
    toQuery(TRAINING, initialSelection(TRAINING), { embed: "1" }),
    "?embed=1&checkpoints=1.2&episode=1&step=1",
  );
  assert.match(toQuery(TRAINING, selection), /brush=step%7E3%7E7/, "counted from 1");
});

test("nonsense in an address is passed over", () => {
  const start = initialSelection(TRAINING);
  for (const text of [
    "?checkpoints=9.x.-1&step=1e99&episode=NaN&grid=0x&boxes=1~2,a~b~c~d&brush=step&brush=value~a~b&visible=z",
    "?checkpoints=&overlay=__proto__&region=-4&name=x&method=%3Csvg%3E&sync=",
  ]) {
    assert.deepEqual(fromQuery(TRAINING, text), start, text);
  }
  assert.deepEqual(notePlaces(TRAINING, start)[0].place, "first, last, episode 1, step 1");
});

test("maps of segments are one list", () => {
  assert.deepEqual([...MAPS.arrays.steps.data], [0, 2]);
  assert.deepEqual(MAPS.arrays["codes.value"].shape, [2, 4, 2]);
  assert.equal(joinMaps([]), null);
});

const PLAYS = [
  { series: SERIES, maps: MAPS },
  { series: null, maps: null },
];

test("a step between maps has the shares of the last one", () => {
  const columns = playColumns(TRAINING, initialSelection(TRAINING), PLAYS, 0);
  assert.deepEqual([...columns["region-1"]], [1, 1, 0.25, 0.25]);
  assert.deepEqual([...columns["region-3"]], [0, 0, 0.5, 0.5]);
  assert.equal(playColumns(TRAINING, initialSelection(TRAINING), PLAYS, 1), null);
});

test("what all brushes hold is marked on the checkpoint's tracks", () => {
  const start = initialSelection(TRAINING);
  const columns = playColumns(TRAINING, start, PLAYS, 0);
  assert.deepEqual([...maskOf(columns, { value: [2, 4], return: [2.5, 9] })], [0, 1, 0, 0]);
  assert.deepEqual([...maskOf(columns, { nothing: [0, 0] })], [1, 1, 1, 1]);
  assert.equal(brushedSteps(TRAINING, start, PLAYS), null);
  const marks = brushedSteps(TRAINING, { ...start, brushes: { value: [2, 3] } }, PLAYS);
  assert.deepEqual([...marks], [["agent-1/0", [[1, 2]]]]);
});

test("axes are in the order that was chosen, others after them", () => {
  const keys = axesOf({ regions: { rows: 1, columns: 2, boxes: [], names: {} }, axes: ["return", "none"] }).map(
    ({ key }) => key,
  );
  assert.deepEqual(keys.slice(0, 4), ["return", "step", "region-1", "region-2"]);
});

test("an episode of another recording can be shown to all", () => {
  const other = { ...section("trajectories", "agent-2", { trajectories: [{ steps: 7 }] }), recording: "recording-3" };
  const [data] = MANIFEST.sections.slice(-1);
  const shown = { ...data.data.reference, recording: "recording-3" };
  const sections = [...MANIFEST.sections, other, { ...data, data: { ...data.data, reference: shown } }].filter(
    (one) => one !== data,
  );
  const read = readReference({ ...MANIFEST, sections }, checkpoints);
  assert.deepEqual([read.checkpoint.index, read.steps], [1, 7]);
  assert.equal(checkpoints[1].manifest.trajectories[0].steps, 11);
});

test("brushes hold the same lines in an address", () => {
  for (const range of [
    [0.1234567, 3.11134],
    [-3.11134, -0.1234567],
    [0, 0.5],
    [-1234567, 999999],
  ]) {
    const brushed = changed(TRAINING, initialSelection(TRAINING), { brushes: { value: range } });
    const [low, high] = fromQuery(TRAINING, toQuery(TRAINING, brushed)).brushes.value;
    assert.ok(low <= range[0] && high >= range[1], `${low} ${high}`);
    assert.ok(Math.abs(low - range[0]) <= 1e-4 * Math.abs(range[0]));
  }
});
