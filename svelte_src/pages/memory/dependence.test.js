import assert from "node:assert/strict";
import { test } from "node:test";
import { entryText, readSteps, rowNames, stepOf, verdict } from "./dependence.js";
import { isCut, listed, reasons } from "./windows.js";

const REACH = {
  ...{ steps: 21, effect: 0.53, interval: [0.5, 0.56], count: 15, episodes: 16, longest: 21 },
  ...{ detectable: 0.171, noticeable: 0.02 },
};
const STRONGEST = { trajectory: 2, frame: 21, begins: 0, until: 0, change: 0.74, policy: 0.74, spread: 0.05 };

test("the first line says which step the decision depends on, and how far back decisions reach", () => {
  const [first, second] = verdict({ reach: REACH, strongest: STRONGEST, partners: 3 });
  assert.match(first, /^The decision at step 22 of episode 3 depends on step 1, 21 steps earlier:/);
  assert.match(first, /memory of 3 other episodes .* 0\.74 nats \(standard deviation over these episodes 0\.050\)\.$/);
  assert.match(
    second,
    /up to 21 steps earlier: .* 0\.53 nats on average \(95 % interval 0\.50 to 0\.56\), in 15 of 16 episodes/,
  );
  const [few, mean] = verdict({
    reach: { ...REACH, count: 2 },
    strongest: { ...STRONGEST, until: 4, change: 0.2 },
    partners: 3,
  });
  assert.match(few, /depends on a step from 1 to 5, 17 to 21 steps earlier/);
  assert.match(few, /, and by 0\.20 nats if only what was seen up to step 5 is exchanged\.$/);
  assert.match(mean, /0\.53 nats on average, in 2 of 16 episodes \(those with at least 0\.020 nats\)/);
});

test("an agent that depends on nothing is said not to, with what would have been seen", () => {
  const reach = { ...REACH, steps: 0, effect: 0.004, interval: [0.002, 0.006], count: 0 };
  const [only, ...others] = verdict({ reach, strongest: null, partners: 3 });
  assert.equal(others.length, 0);
  assert.match(only, /^This agent's decisions hardly depend on what was seen before: .* 0\.0040 nats on average/);
  assert.match(only, /\(95 % interval 0\.0020 to 0\.0060\).*more than 17.% of the episodes.*below 0\.020 nats/);
  assert.match(verdict({ reach, strongest: STRONGEST, partners: 3 })[1], /^Only in single episodes/);
  assert.match(verdict({ reach: null, skipped: "1 episode" })[0], /was not measured: 1 episode\./);
});

test("entries of the matrix are read in words", () => {
  const data = (...numbers) => ({ data: Float32Array.of(...numbers), shape: [2, 3] });
  const arrays = {
    exchanged: { data: Int32Array.of(1, 2), shape: [2] },
    ...{ policy: data(NaN, 0.5, 0.25, NaN, NaN, 0.75), policy_spread: data(NaN, 0.1, 0.2, NaN, NaN, 0) },
    value: data(NaN, 1, 2, NaN, NaN, 3),
  };
  assert.deepEqual(rowNames(arrays), [2, 3]);
  assert.equal(stepOf(arrays, 5), 2);
  assert.deepEqual([...readSteps(arrays)], [0, 0.5, 0.75]);
  assert.match(
    entryText(arrays, 2, 3),
    /before step 2 .* 3 other .* at step 3 changes by 0\.25 nats .* 0\.20\), and the value by 2\.0/,
  );
  assert.match(entryText(arrays, 3, 3), /Step 1 is before the exchange at step 3/);
});

test("decisions that depend on memory are listed, and windows that miss the cause are cut", () => {
  const windows = [
    { trajectory: 0, first: 5, frame: 15, begins: 2, why: [{ kind: "decision" }] },
    { trajectory: 0, first: 5, frame: 12, begins: 5, why: [{ kind: "reward" }, { kind: "end" }] },
    { trajectory: 0, first: 5, frame: 12, ended: "saw", why: [{ kind: "end" }] },
    { trajectory: 0, first: 0, frame: 3, why: [{ kind: "entropy" }] },
  ];
  assert.deepEqual(windows.map(isCut), [true, false, false, false]);
  const selection = {
    choice: "decision",
    end: "any",
    when: "any",
    search: "",
    components: [0],
    trajectory: 0,
    frame: 0,
  };
  assert.deepEqual(listed(windows, selection, String), [0]);
  assert.deepEqual(windows.map((one) => reasons(one, String)), ["depends on memory", "reward, last step", "last step (saw)", "high entropy"]); // prettier-ignore
});
