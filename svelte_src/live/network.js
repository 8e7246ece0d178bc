// Answers of the network that is beside the page, in place of the server's (rl_clarity/live/network.py).
import { Refusal } from "../data/ask.js";
import { objectsOf } from "../data/objects.js";
import { changedActivations } from "./activations.js";
import { blurred, createObservations, createRemovals, newestFrame, paint } from "./observations.js";
import { openNetwork } from "./onnx.js";

/** Steps that are computed between two looks at whether the answer is still wanted. */
const BATCH = 16;
/** Steps of a trajectory, evenly spread, whose outputs are compared with the stored ones. */
const CHECKED = 16;
/** Largest difference between recomputed and stored outputs, as a share of the stored output's range. */
const TOLERANCE = 1e-3;
/** Baselines that depend on nothing but the observation. */
const BASELINES = ["zero-layer", "zero-input", "blur", "narrow-blur"];

/** The page's baseline; null if it depends on observations that the page does not have. */
export const baselineOf = ({ baseline = "zero-layer" }) => (BASELINES.includes(baseline) ? baseline : null);

class Superseded extends Error {}

/**
 * A function as `createQuestions` returns, for questions to the network beside the page.
 *
 * One question is answered at a time, and of those of the same name only the newest.
 *
 * @param {ReturnType<typeof createNetwork>} network
 * @returns {(name: string) => (kind: string, question: any) => Promise<any>}
 */
export function localQuestions(network) {
  let queue = Promise.resolve();
  return () => {
    let newest = 0;
    return (kind, question) => {
      const own = (newest += 1);
      const wanted = () => own === newest;
      const turn = queue.then(async () => (wanted() ? network[kind](question, wanted) : null));
      queue = turn.then(
        () => {},
        () => {},
      );
      return turn.catch((error) => {
        if (error instanceof Superseded || !wanted()) return null;
        throw error;
      });
    };
  };
}

/**
 * @param {any} section as `WhatIfSection`
 * @param {any} manifest as `readManifest` returns it
 * @param {(name: string) => Promise<any>} chunk
 */
export function createNetwork(section, manifest, chunk) {
  const { observation, trajectories } = manifest;
  const layers = new Map(manifest.layers.map((layer) => [layer.key, layer]));
  const observed = createObservations(manifest, chunk);
  const replayed = new Map();
  const removable = new Map();
  /** outputs without a change, of the steps of the newest answer @type {{key: string, outputs: any}} */
  let unchanged = { key: "", outputs: null };
  let opened;

  const open = () => (opened ??= openNetwork(section, chunk));

  /**
   * The states before the steps of a trajectory, which is played again: each part of each step. A question that is replaced by a
   * newer one leaves the rest to it.
   */
  async function states(trajectory, wanted) {
    const { initial, forward } = await open();
    if (!initial.length) return null;
    const series = await chunk(trajectories[trajectory].series);
    if (!replayed.has(trajectory)) {
      replayed.set(trajectory, { before: [], state: initial.map((part, i) => series[`state.${i}`] ?? part) });
    }
    const replay = replayed.get(trajectory);
    for (let step = replay.before.length; step < trajectories[trajectory].steps; step += 1) {
      require(wanted);
      const state = series.firsts[step] ? initial : replay.state;
      const images = await observed(trajectory, step, step);
      replay.state = (await forward({ observations: flat(images), state })).state;
      replay.before.push(state);
    }
    return replay.before;
  }

  /** Changed copies of the observations of steps from the first. */
  async function changed(seen, trajectory, first, { objects, boxes }) {
    const images = seen.map((image) => image.slice());
    const removals = objects.length ? await removalsOf(trajectory) : null;
    for (const [i, image] of images.entries()) {
      removals?.remove(image, first + i, objects);
      for (const painted of boxes) {
        const other = painted.fill === "frame" ? await observed(painted.trajectory, painted.step, painted.step) : [];
        paint(image, observation, painted, other[0]);
      }
    }
    return images;
  }

  async function removalsOf(trajectory) {
    if (!removable.has(trajectory)) {
      const entry = objectsOf(manifest)?.trajectories[trajectory];
      const arrays = entry && (await chunk(entry.chunk));
      removable.set(trajectory, arrays?.without ? createRemovals(arrays, entry.types, observation) : null);
    }
    return removable.get(trajectory);
  }

  /** Functions that change the activations of layers, by their names. */
  async function changesOf(features, images, state) {
    const { activations } = await open();
    const changes = new Map();
    for (const feature of features) {
      const { components } = await chunk(layers.get(feature.layer).features);
      const there = feature.baseline.length ? await atBaseline(images) : null;
      const start = there && (await activations({ observations: flat(there), state }, feature.layer));
      changes.set(feature.layer, (values, shape) => changedActivations(values, shape, feature, components, start));
    }
    return changes;
  }

  /** Observations at the page's baseline, or null for activations of zero. */
  async function atBaseline(images) {
    const baseline = baselineOf(manifest);
    if (!baseline) {
      throw new Refusal(`The baseline “${manifest.baseline}” depends on observations that the page does not have.`);
    }
    if (baseline === "zero-layer") return null;
    if (baseline === "zero-input") return images.map((image) => new Uint8Array(image.length));
    const { stored } = await open();
    const [down, across] = [`${baseline}.down`, `${baseline}.across`].map((name) => stored[name]);
    return images.map((image) => blurred(image, observation, down, across));
  }

  /** Outputs at steps that start in states, each part of each step; null for a network without a state. */
  async function forwardAll(images, before, features, wanted) {
    const { forward } = await open();
    const parts = [];
    for (let at = 0; at < images.length; at += BATCH) {
      require(wanted);
      const batch = images.slice(at, at + BATCH);
      const state = before ? joined(before.slice(at, at + BATCH)) : [];
      const changes = await changesOf(features, batch, state);
      parts.push(await forward({ observations: flat(batch), state }, changes));
    }
    return together(parts);
  }

  /** Outputs of steps each of which starts in the state after the changed step before it. */
  async function forwardInTurn(images, first, firsts, features, wanted) {
    const { forward, initial } = await open();
    const parts = [];
    let state = first;
    for (const [i, image] of images.entries()) {
      require(wanted);
      if (i && firsts[i]) state = initial;
      const changes = await changesOf(features, [image], state);
      parts.push(await forward({ observations: flat([image]), state }, changes));
      state = parts[i].state;
    }
    return together(parts);
  }

  return {
    async outputs({ trajectory, first, last, change, memory }, wanted) {
      const replay = await states(trajectory, wanted);
      const before = replay && replay.slice(first, last + 1);
      const seen = await observed(trajectory, first, last);
      const images = await changed(seen, trajectory, first, change);
      const { features } = change;
      const key = [trajectory, first, last].join();
      if (unchanged.key !== key) unchanged = { key, outputs: await forwardAll(seen, before, [], wanted) };
      const answer = {
        first,
        before: unchanged.outputs,
        after:
          memory && before
            ? await forwardInTurn(images, before[0], await firstsOf(trajectory, first, last), features, wanted)
            : await forwardAll(images, before, features, wanted),
      };
      if (first !== last) return answer;
      const removals = await removalsOf(trajectory);
      return { ...answer, objects: removals?.listed(first) ?? [], frame: newestFrame(images[0], observation) };
    },

    /** The largest difference to the stored outputs, as a share of the range of the stored output. */
    async check({ trajectory }, wanted) {
      const { steps, series } = trajectories[trajectory];
      const [stored, replay] = [await chunk(series), await states(trajectory, wanted)];
      const count = Math.min(CHECKED, steps);
      const chosen = Array.from({ length: count }, (_, i) => Math.round((i * (steps - 1)) / Math.max(1, count - 1)));
      const images = (await Promise.all(chosen.map((step) => observed(trajectory, step, step)))).flat();
      const before = replay && chosen.map((step) => replay[step]);
      const found = await forwardAll(images, before, [], wanted);
      const shares = ["values", "logits"]
        .filter((name) => stored[name] && found[name])
        .map((name) => largestDifference(stored[name], found[name].flat(), chosen));
      const difference = Math.max(0, ...shares);
      return { difference, tolerance: TOLERANCE, agrees: difference <= TOLERANCE };
    },
  };

  async function firstsOf(trajectory, first, last) {
    return (await chunk(trajectories[trajectory].series)).firsts.slice(first, last + 1);
  }
}

function require(wanted) {
  if (!wanted()) throw new Superseded();
}

function largestDifference(known, found, steps) {
  const width = known.length / known.shape[0];
  const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  const differences = found.map((value, i) =>
    Math.abs(value - known[steps[Math.floor(i / width)] * width + (i % width)]),
  );
  return Math.max(...differences.map((one) => (Number.isFinite(one) ? one : Infinity))) / (high - low || 1);
}

const flat = (images) => {
  const numbers = new Float32Array(images.length * images[0].length);
  images.forEach((image, i) => numbers.set(image, i * image.length));
  return numbers;
};

/** States of several steps, each a list of parts, as parts (B, ...). */
const joined = (before) => before[0].map((_, part) => flat(before.map((state) => state[part])));

/** Outputs of batches as those of all steps. */
const together = (parts) => ({
  values: parts[0].values && parts.flatMap(({ values }) => values),
  logits: parts.flatMap(({ logits }) => logits),
});
