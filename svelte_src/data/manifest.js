// The manifest (docs/page-format.md) as stores and components use it.
import { numberRanges } from "../kit/shell/format.js";

const FORMAT = "rl-clarity-page";
const VERSION = 2;
const VALUE = { id: "value", kind: "value", label: "value function" };
/** What a page without attribution shows of an agent without a value function. */
const GREEDY = {
  policy: { id: "greedy", kind: "greedy", label: "largest logit" },
  action_values: { id: "greedy", kind: "greedy", label: "largest action value" },
};

/** Why a page cannot be shown, in a sentence for the reader; null if it can. */
export function problemWith(manifest, kinds) {
  if (!manifest) return "This page has no data: its manifest is missing.";
  if (manifest.format !== FORMAT) return `This file is not a page of rl-clarity: its format is “${manifest.format}”.`;
  if (manifest.version !== VERSION) {
    return `This page's data has version ${manifest.version}, but its script reads version ${VERSION}. Create the page again with: rl-clarity run CHECKPOINT DIRECTORY --force`;
  }
  const { kind } = manifest;
  if (!Object.hasOwn(kinds, kind)) {
    return `This page is of kind “${kind}”. Its script shows: ${Object.keys(kinds).join(", ")}.`;
  }
  return kinds[kind].problemWith?.(readManifest(manifest, kinds[kind].sections)) ?? null;
}

/**
 * @param {object} manifest
 * @param {string[]} [placed] kinds of sections that the page's own panels draw
 * @returns {object} the manifest; what its sections say of the page's first recording, with features merged into layers; and
 *   `others`: the remaining sections, each with an `id` that no other panel has
 */
export function readManifest(manifest, placed = []) {
  const section = (kind) => manifest.sections.find((candidate) => candidate.kind === kind);
  const [trajectories, features, attribution] = ["trajectories", "features", "attribution"].map(section);
  const [ablation, behavior, saliency] = ["ablation", "behavior", "saliency"].map(section);
  const agent = byId(manifest.agents, trajectories?.agent) ?? {};
  const ofLayer = (list = [], { name }) => list.filter((one) => one.layer === name);
  const others = manifest.sections.filter(({ kind, trajectory }) => trajectory === undefined && !placed.includes(kind));
  return {
    ...manifest,
    agent,
    env_name: byId(manifest.recordings, trajectories?.recording)?.env_name ?? "",
    observation: agent.observation,
    actions: agent.actions ?? [],
    trajectories: [],
    ...trajectories?.data,
    outputs: attribution?.data.outputs ?? [agent.has_value ? VALUE : bestAction(agent)].filter(Boolean),
    baseline: attribution?.data.baseline,
    agreement: section("agreement")?.data ?? null,
    checks: section("checks")?.data.report ?? null,
    choice: section("baseline")?.data ?? null,
    opening: attribution?.data.opening,
    layers: [
      ...(attribution?.data.layers ?? []).map((layer) => ({
        ...withFeatures(layer, features?.data.layers[layer.slug]),
        ...(ablation && { ablation: { ...ablation.data.layers[layer.slug], to: ablation.data.to } }),
        ...(behavior && {
          behavior: ofLayer(behavior.data.rows, layer).filter(({ twins = [] }) => twins.length === 0),
          clips: ofLayer(behavior.data.clips, layer),
        }),
      })),
      ...saliencyLayers(saliency?.data),
    ],
    observations: features?.data.observations ?? null,
    explanations: [trajectories, features, attribution].flatMap((one) => one?.notes ?? []),
    methods: saliency?.notes ?? [],
    others: others.map((one, i) => ({ ...one, id: idOf(one, others.slice(0, i)) })),
  };
}

/** What stands for the value: the best action, or the first output of an action of several factors. */
const bestAction = ({ kind, factors, actions }) =>
  factors?.length ? { id: "action-0", kind: "action", label: actions[0].label, action: 0 } : GREEDY[kind];

const byId = (list, id) => list.find((item) => item.id === id) ?? list[0];

/** "novelty", or "novelty-2" for the second section of a kind. */
function idOf({ kind }, before) {
  const count = before.filter((other) => other.kind === kind).length;
  return count ? `${kind}-${count + 1}` : kind;
}

/** `name` is what readers see; `key`, the name in the file, is in addresses. */
function withFeatures(layer, { chunk = null, thumbnails = [], reduction = null, ...more } = {}) {
  const { name: key, label: name = key } = layer;
  return { ...more, ...layer, key, name, features: chunk, thumbnails, reduction };
}

/** Methods of saliency are shown as layers are, with outputs in place of features. */
const saliencyLayers = ({ every, methods } = /** @type {Partial<import("./sections").SaliencySection>} */ ({})) =>
  (methods ?? []).map((method) => ({
    ...method,
    every,
    kind: "saliency",
    key: method.name,
    slug: method.name,
    name: method.label,
    height: method.rows,
    width: method.columns,
    channels: method.outputs.length,
    names: method.outputs.map(({ label }) => label),
    features: null,
    thumbnails: [],
  }));

/** Whether a layer is one of the network's, whose attribution has features and adds up to an output. */
export const hasFeatures = ({ kind }) => kind !== "input" && kind !== "saliency";

/** Whether the agent observes a vector: a single position, whose numbers have no place in an image. */
export const observesVector = ({ observation }) => observation.height * observation.width === 1;

/** Whether frames are images: those of a vector are, where the environment rendered them. */
export const hasImages = (manifest) => !observesVector(manifest) || manifest.observation.frame_width > 1;

/** A function that says whether an unfinished page lacks a file that a value names. */
export function lacking(manifest) {
  const missing = new Set(manifest.missing ?? []);
  const lacks = (value) =>
    typeof value === "string" ? missing.has(value) : Object.values(value ?? {}).some((entry) => lacks(entry));
  return lacks;
}

/**
 * What an unfinished page lacks, in words.
 *
 * @param {object} manifest as `readManifest` returns it; its `missing` lists names of files
 * @returns {string} such as "frames of trajectory 2; features of 1a; attribution to 1a, to 2b on trajectories 3 to 8"
 */
export function missingParts(manifest) {
  const lacks = lacking(manifest);
  const total = manifest.trajectories.length;
  const played = numbers(manifest.trajectories, lacks);
  const features = manifest.layers.filter(({ thumbnails }) => lacks(thumbnails)).map(({ name }) => name);
  const places = (layers, filesOf) =>
    layers.flatMap((layer) => {
      const without = numbers(manifest.trajectories, (_, t) => lacks(filesOf(layer, t)));
      if (!without.length) return [];
      return [without.length === total ? layer.name : `${layer.name} on ${trajectoryNumbers(without)}`];
    });
  const [methods, layers] = [true, false].map((wanted) =>
    manifest.layers.filter(({ kind }) => (kind === "saliency") === wanted),
  );
  const attribution = places(layers, ({ totals, attribution: files }, t) => [
    totals[t],
    ...Object.values(files).map((segments) => segments[t]),
  ]);
  const saliency = places(methods, ({ maps: files }, t) => files[t]);
  const parts = [
    played.length && `frames of ${played.length === total ? "all trajectories" : trajectoryNumbers(played)}`,
    features.length && `features of ${features.join(", ")}`,
    attribution.length && `attribution ${attribution.map((place) => `to ${place}`).join(", ")}`,
    saliency.length && `saliency by ${saliency.join(", ")}`,
    ...(manifest.pending ?? []),
    ...(manifest.others ?? []).filter(({ data }) => lacks(data)).map(({ title, kind }) => title || kind),
  ].filter(Boolean);
  return parts.join("; ") || "comparison of features";
}

/** Numbers, from 1, of the items that a condition holds for. */
const numbers = (items, holds) => items.map((item, i) => (holds(item, i) ? i + 1 : 0)).filter(Boolean);

/** "trajectory 2", "trajectories 1, 3 to 8" */
const trajectoryNumbers = (list) => `${list.length === 1 ? "trajectory" : "trajectories"} ${numberRanges(list)}`;
