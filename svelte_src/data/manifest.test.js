import assert from "node:assert/strict";
import test from "node:test";
import { hasFeatures, missingParts, problemWith, readManifest } from "./manifest.js";

const trajectory = (t) => ({ series: `s${t}`, scrub: [`strip${t}`], frames: [`f${t}`], images: [`p${t}`] });
const layer = (name) => ({
  name,
  thumbnails: [`thumbnail-${name}`],
  totals: [0, 1, 2, 3].map((t) => `totals-${name}-${t}`),
  attribution: { value: [0, 1, 2, 3].map((t) => [`a-${name}-${t}-1`, `a-${name}-${t}-2`]) },
});
const manifest = (missing) => ({
  missing,
  trajectories: [0, 1, 2, 3].map(trajectory),
  layers: [layer("1a"), layer("2b")],
});

test("what is missing is named by layers and trajectories", () => {
  assert.equal(missingParts(manifest(["f1"])), "frames of trajectory 2");
  assert.equal(missingParts(manifest(["p0", "s2", "strip3"])), "frames of trajectories 1, 3 to 4");
  assert.equal(missingParts(manifest(["thumbnail-2b"])), "features of 2b");
  assert.equal(
    missingParts(manifest(["a-1a-0-2", "totals-2b-0", "totals-2b-1", "a-2b-2-1", "a-2b-3-1"])),
    "attribution to 1a on trajectory 1, to 2b",
  );
});

test("nothing but what all layers together decide", () => {
  assert.equal(missingParts(manifest(["features_grids/1a.js"])), "comparison of features");
  assert.equal(missingParts({ ...manifest([]), missing: undefined }), "comparison of features");
});

test("other sections that miss files are named by their titles", () => {
  const others = [{ kind: "novelty", title: "Novelty", data: { rows: [{ chunk: "n.js" }] } }];
  assert.equal(missingParts({ ...manifest(["n.js", "f1"]), others }), "frames of trajectory 2; Novelty");
});

const AGENT = {
  id: "agent-1",
  kind: "policy",
  has_value: true,
  observation: { height: 8 },
  actions: [{ label: "left" }],
};
const page = (...sections) => ({
  format: "rl-clarity-page",
  version: 2,
  kind: "agent",
  agents: [AGENT],
  recordings: [{ id: "recording-1", agent: "agent-1", env_name: "coinrun" }],
  sections,
});
const TRAJECTORIES = {
  kind: "trajectories",
  agent: "agent-1",
  recording: "recording-1",
  data: { segment: 64, trajectories: [{ steps: 3 }] },
};

test("an agent without a value function shows its largest logit or action value", () => {
  const shown = (agent) => readManifest({ ...page(TRAJECTORIES), agents: [{ ...AGENT, ...agent }] }).outputs;
  assert.deepEqual(shown({}), [{ id: "value", kind: "value", label: "value function" }]);
  assert.deepEqual(shown({ has_value: false }), [{ id: "greedy", kind: "greedy", label: "largest logit" }]);
  const actionValues = { has_value: false, kind: "action_values" };
  assert.deepEqual(shown(actionValues), [{ id: "greedy", kind: "greedy", label: "largest action value" }]);
});

test("a manifest says what stores and components need, features merged into layers", () => {
  const features = {
    kind: "features",
    data: {
      observations: { count: 1 },
      layers: {
        a: { chunk: "f.js", thumbnails: ["t"], reduction: { error: 0.1 }, facts: { coverage: { value: 0.5 } } },
      },
    },
  };
  const attribution = {
    kind: "attribution",
    notes: [{ title: "T", text: "x" }],
    data: {
      outputs: [{ id: "value" }],
      layers: [
        { name: "0", slug: "a", label: "relu 0 (8 channels)" },
        { name: "input", slug: "input" },
      ],
    },
  };
  const read = readManifest(page(TRAJECTORIES, features, attribution), ["trajectories", "features", "attribution"]);
  assert.deepEqual(
    [read.agent.id, read.env_name, read.segment, read.observation.height],
    ["agent-1", "coinrun", 64, 8],
  );
  assert.deepEqual(read.layers[0], {
    key: "0",
    name: "relu 0 (8 channels)",
    slug: "a",
    label: "relu 0 (8 channels)",
    features: "f.js",
    thumbnails: ["t"],
    reduction: { error: 0.1 },
    facts: { coverage: { value: 0.5 } },
  });
  assert.deepEqual([read.layers[1].name, read.layers[1].features, read.layers[1].thumbnails], ["input", null, []]);
  assert.deepEqual(read.explanations, attribution.notes);
  assert.deepEqual(read.others, []);
});

test("a page without attribution has its value function, and unplaced sections have names of their own", () => {
  const novelty = { kind: "novelty", data: {} };
  const read = readManifest(page(TRAJECTORIES, novelty, novelty), ["trajectories"]);
  assert.deepEqual([read.layers, read.outputs.map(({ id }) => id)], [[], ["value"]]);
  assert.deepEqual(
    read.others.map(({ id }) => id),
    ["novelty", "novelty-2"],
  );
});

test("pages that cannot be shown say why", () => {
  const kinds = { agent: { sections: [], problemWith: ({ trajectories }) => (trajectories.length ? null : "none") } };
  assert.equal(problemWith(page(TRAJECTORIES), kinds), null);
  assert.equal(problemWith(page(), kinds), "none");
  assert.match(problemWith(null, kinds), /manifest is missing/);
  assert.match(problemWith({ format: "other" }, kinds), /not a page of rl-clarity/);
  assert.match(problemWith({ ...page(), version: 3 }, kinds), /version 3.*rl-clarity run/);
  assert.match(problemWith({ ...page(), kind: "training" }, kinds), /kind “training”/);
});

const METHOD = {
  name: "perturbation",
  label: "perturbation",
  outputs: [
    { id: "policy", label: "policy" },
    { id: "value", label: "value" },
  ],
  rows: 16,
  columns: 12,
  maps: [["m1", "m2"], ["m3"]],
};

test("methods of saliency are layers, whose channels are outputs", () => {
  const saliency = { kind: "saliency", notes: [{ title: "t", text: "x" }], data: { every: 4, methods: [METHOD] } };
  const { layers, methods } = readManifest(page(TRAJECTORIES, saliency), ["trajectories", "saliency"]);
  const [{ kind, key, slug, height, width, channels, names, every }] = layers;
  assert.deepEqual([kind, key, slug, height, width], ["saliency", "perturbation", "perturbation", 16, 12]);
  assert.deepEqual([channels, names, every], [2, ["policy", "value"], 4]);
  assert.equal(hasFeatures(layers[0]), false);
  assert.deepEqual(methods, saliency.notes);
  const unfinished = { layers, trajectories: [{}, {}], missing: ["m2"] };
  assert.equal(missingParts(unfinished), "saliency by perturbation on trajectory 1");
});
