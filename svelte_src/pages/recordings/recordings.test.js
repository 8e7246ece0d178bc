import assert from "node:assert/strict";
import { test } from "node:test";
import { createSource } from "../../data/source.js";
import { EMPTY, markedSteps, withRange } from "../../kit/time/brush.js";
import { controlsOf, partsOf } from "./actions.js";
import { filteredRows, rowsInView, stateText, timeText } from "./rows.js";
import { addEntry, explainCommand, isOutdated, newest, readTable, sectionsOf } from "./runs.js";
import { goTo, rangesOf, toggle } from "./chosen.js";
import { defineSelection } from "../../kit/page/selection.js";
import { combine, FIELDS, notes } from "./fields.js";
import { availableTracks } from "./tracks.js";

const { changed, fromQuery, initialSelection, notePlaces, toQuery } = defineSelection({
  combine,
  fields: FIELDS,
  notes,
});

const METHOD = { name: "perturbation", maps: [null, null], scales: { policy: [null, null] } };

function manifestOf({ live = true, grown = 20 } = {}) {
  const section = (kind, recording, data) => ({ kind, recording, data });
  const episode = (run, trajectory, number, time, more) => ({ run, trajectory, episode: number, time, ...more });
  return {
    agents: [{ id: "agent-1", actions: [{ label: "left" }], observation: { frame_width: 4 } }, { id: "agent-2" }],
    recordings: [
      { id: "recording-1", agent: "agent-1", env_name: "runner" },
      { id: "recording-2", agent: "agent-2" },
    ],
    sections: [
      section("episodes", undefined, {
        live,
        logdir: "runs",
        runs: [
          { recording: "recording-1", name: "a/b~c", error: null },
          { recording: "recording-2", name: "two", error: "newer" },
        ],
        episodes: [
          episode(0, 0, 0, 10, { return: 1, length: 10, end: "done", error: null }),
          episode(0, 1, 50, 30, { return: 7, length: grown, end: "live", error: null }),
          episode(1, 0, 0, 20, { return: -2, length: 5, end: "done", error: "damaged here" }),
        ],
      }),
      section("trajectories", "recording-1", {
        segment: 64,
        trajectories: [
          { steps: 10, entry: "1/0/entry-a.json" },
          { steps: grown, entry: `1/1/entry-${grown}.json` },
        ],
      }),
      section("saliency", "recording-1", { every: 2, methods: [structuredClone(METHOD)] }),
      section("trajectories", "recording-2", { segment: 64, trajectories: [{ steps: 5 }] }),
    ],
  };
}

/** A selection as pages hold it. */
function holder(table, patch = {}) {
  const selection = {
    now: { ...initialSelection({ table }), ...patch },
    change: (next) => (selection.now = changed({ table }, selection.now, next)),
  };
  return { table, selection };
}

test("the table lists episodes of all runs, with names that selection and address use", () => {
  const table = readTable(manifestOf());
  assert.deepEqual([...table.byKey.keys()], ["a/b~c~0", "a/b~c~50", "two~0"]);
  assert.equal(table.rows[2].of.error, "newer");
  assert.equal(table.runs[0].manifest.env_name, "runner");
  assert.equal(newest(table.rows).key, "a/b~c~50");
  const twice = manifestOf();
  twice.sections[0].data.episodes[1].episode = 0;
  assert.deepEqual([...readTable(twice).byKey.keys()], ["a/b~c~0", "a/b~c~0.2", "two~0"]);
});

test("entries are merged where components look for them, and stay when the manifest changes", () => {
  const table = readTable(manifestOf());
  const [run] = table.runs;
  const { manifest } = run;
  assert.ok(isOutdated(run, 1));
  const trajectory = { steps: 20, series: "s.js" };
  addEntry(run, 1, "1/1/entry-20.json", {
    trajectory,
    sections: [
      { kind: "saliency", data: { methods: [{ name: "perturbation", maps: [["m"]], scales: { policy: [3] } }] } },
      { kind: "novelty", panel: "lines", data: { trajectories: ["n"], series: [] } },
    ],
  });
  assert.ok(!isOutdated(run, 1));
  assert.equal(manifest.trajectories[1], trajectory);
  assert.deepEqual(run.saliency.methods[0].maps, [null, ["m"]]);
  const next = readTable(manifestOf({ grown: 33 }), table);
  assert.equal(next.runs[0], run);
  assert.equal(run.manifest, manifest, "components keep the object");
  assert.equal(manifest.trajectories[1], trajectory, "what is known stays until the new entry is there");
  assert.deepEqual(run.saliency.methods[0].scales.policy, [null, 3]);
  const [novelty, ...more] = sectionsOf(next.byKey.get("a/b~c~50"));
  assert.deepEqual([novelty.kind, novelty.data.trajectories[1], more], ["novelty", "n", []]);
  assert.ok(isOutdated(run, 1), "it has grown");
  assert.equal(next.byKey.get("a/b~c~50").length, 33);
});

test("the newest episode is chosen at first; a tick adds one, and the last one stays", () => {
  const page = holder(readTable(manifestOf()));
  const { selection } = page;
  assert.deepEqual(selection.now.chosen, ["a/b~c~50"]);
  toggle(page, "two~0");
  assert.deepEqual(selection.now.chosen, ["a/b~c~50", "two~0"]);
  toggle(page, "a/b~c~50");
  toggle(page, "two~0");
  assert.deepEqual(selection.now.chosen, ["two~0"]);
  assert.deepEqual(initialSelection({ table: readTable({ agents: [], recordings: [], sections: [] }) }).chosen, []);
});

test("going to a frame shows its episode in the first one's place", () => {
  const page = holder(readTable(manifestOf()), { chosen: ["a/b~c~50", "two~0"] });
  goTo(page, page.table.byKey.get("a/b~c~0"), 6);
  assert.deepEqual([page.selection.now.chosen, page.selection.now.step], [["a/b~c~0", "two~0"], 6]);
  page.selection.now.sync = "progress";
  goTo(page, page.table.byKey.get("two~0"), 4);
  assert.deepEqual([page.selection.now.chosen, page.selection.now.step], [["a/b~c~0", "two~0"], 9]);
});

test("a range holds steps of every chosen episode, aligned as these are", () => {
  const table = readTable(manifestOf());
  const { selection } = holder(table, { chosen: ["a/b~c~50", "a/b~c~0"] });
  selection.change({ range: [18, 4] });
  assert.deepEqual(selection.now.range, [4, 18]);
  const parts = () => rangesOf(table, selection.now).map(({ episode, first, last }) => [episode, first, last]);
  assert.deepEqual(parts(), [
    [1, 4, 18],
    [0, 4, 9],
  ]);
  selection.change({ sync: "progress" });
  assert.deepEqual(parts()[1], [0, 2, 9]);
  const brush = rangesOf(table, selection.now).reduce(withRange, EMPTY);
  assert.deepEqual(markedSteps(brush)[1], { checkpoint: "recording-1", episode: 0, steps: [2, 3, 4, 5, 6, 7, 8, 9] });
});

test("the address holds the selection; what is wrong in it is ignored", () => {
  const table = readTable(manifestOf());
  const query =
    "?episode=a%2Fb%7Ec%7E0&episode=two%7E0&step=7&sync=progress&shows=frame&jump=25&range=3-6&tracks=film%2Cinfo.x";
  const now = fromQuery({ table }, query);
  assert.deepEqual(now.chosen, ["a/b~c~0", "two~0"]);
  assert.deepEqual([now.step, now.sync, now.shows, now.jump, now.range], [6, "progress", "frame", 25, [2, 5]]);
  assert.deepEqual(fromQuery({ table }, toQuery({ table }, now)), now);
  assert.equal(toQuery({ table }, initialSelection({ table })), "?episode=a%2Fb%7Ec%7E50&step=1");
  const wrong = fromQuery({ table }, "?episode=none~3&step=9e9&sync=up&range=x&opacity=7&method=other");
  assert.deepEqual({ ...wrong, opacity: 0.8 }, initialSelection({ table }));
  assert.equal(notePlaces({ table }, now)[0].place, "a/b~c, episode 0; two, episode 0, step 7");
});

test("rows are filtered by regular expressions, and numbers by comparisons", () => {
  const rows = readTable(manifestOf()).rows.map((row) => ({ ...row, state: stateText(row) }));
  const keys = (filters) => filteredRows(rows, filters).rows.map(({ key }) => key);
  assert.deepEqual(keys({ any: "^two$" }), ["two~0"]);
  assert.deepEqual(keys({ any: "LIVE|damaged" }), ["a/b~c~50", "two~0"]);
  assert.deepEqual(keys({ return: "> 0" }), ["a/b~c~0", "a/b~c~50"]);
  assert.deepEqual(keys({ return: "-5..1.5", name: "b~" }), ["a/b~c~0"]);
  assert.deepEqual(keys({ length: "^.0$" }), ["a/b~c~0", "a/b~c~50"]);
  assert.deepEqual(filteredRows(rows, { any: "(" }), { rows, wrong: "any" });
});

test("only the rows in view are drawn, and a few around them", () => {
  const view = (top) => rowsInView(50_000, { top, height: 280, rowHeight: 28, more: 2 });
  assert.deepEqual(view(0), { first: 0, last: 12 });
  assert.deepEqual(view(2800), { first: 98, last: 112 });
  assert.deepEqual(rowsInView(3, { top: 2800, height: 280, rowHeight: 28, more: 2 }), { first: 1, last: 3 });
});

test("times are those of the reader's clock", () => {
  assert.match(timeText(1_700_000_000), /^2023-11-1[45] \d\d:\d\d$/);
  assert.equal(timeText(null), "");
});

test("an action is a stick's position and buttons", () => {
  const actions = [{ combo: [] }, { combo: ["LEFT", "UP"] }, { combo: ["RIGHT", "FIRE"] }];
  assert.deepEqual(partsOf(actions[1]), { x: -1, y: -1, buttons: [] });
  assert.deepEqual(controlsOf(actions), { stick: true, buttons: ["FIRE"] });
  assert.deepEqual(controlsOf([{ combo: ["0"] }, { combo: ["1"] }]), { stick: false, buttons: ["0", "1"] });
});

test("tracks are what was recorded", () => {
  const series = { rewards: { data: [1, 0], shape: [2] }, "info.lives": { data: [3, 2], shape: [2] } };
  const tracks = availableTracks([{ series, trajectory: { scrub: [] } }]);
  assert.deepEqual(
    tracks.map(({ key }) => key),
    ["reward", "return", "info.lives"],
  );
  assert.deepEqual([...tracks[1].values(series)], [1, 1]);
});

test("the manifest is asked for with its version, and given once", async () => {
  const asked = [];
  const request = async (address, options) => {
    asked.push([address, options?.headers ?? {}]);
    const known = options?.headers?.["If-None-Match"] === "v1";
    if (address.endsWith("none.json")) return { ok: false, status: 404 };
    const headers = new Map([["ETag", "v1"]]);
    return { ok: !known, status: known ? 304 : 200, headers, json: async () => ({ kind: "recordings" }) };
  };
  const source = createSource("http://host/data/plugin/rl_clarity/", request);
  assert.equal(source.folder, "http://host/data/plugin/rl_clarity/data/");
  assert.deepEqual(await source.manifest(), { kind: "recordings" });
  assert.equal(await source.manifest(), null);
  assert.deepEqual(asked[1], [`${source.folder}manifest.json?since=v1`, { "If-None-Match": "v1" }]);
  await assert.rejects(source.entry("1/none.json"), { message: "1/none.json is missing" });
});

test("the command to explain has the options of the run's explanations, and quotes the directory", () => {
  const run = {
    saliency: { every: 4, methods: [{ name: "jacobian" }] },
    stateMap: { maps: [{ method: "pca" }] },
  };
  const options = "--methods jacobian --every 4 --embeddings pca";
  assert.equal(explainCommand({ logdir: "runs" }, run), `rl-clarity explain runs ${options}`);
  const none = { saliency: null, stateMap: null };
  assert.equal(explainCommand({ logdir: "my runs/it's" }, none), `rl-clarity explain 'my runs/it'"'"'s'`);
});
