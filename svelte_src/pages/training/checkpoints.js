// The checkpoints of a training page, each with its episodes and its saliency maps.

/**
 * @typedef {import("../../data/sections").CheckpointEntry & Extra} Checkpoint what the section `training` says of it, and more
 *
 * @typedef {object} Extra
 * @property {number} index in order of training
 * @property {boolean} done whether all its files are there; on an unfinished page some checkpoints are not done
 * @property {any} manifest what components of the kit read of a page, for this checkpoint alone
 * @property {import("../../data/sections").SaliencySection | null} saliency data of its section `saliency`
 */

import { lacking } from "../../data/manifest.js";
import { methodNamed } from "../../data/saliency.js";

export { methodNamed, methodsOf } from "../../data/saliency.js";

/** @returns {Checkpoint[]} */
export function readCheckpoints(manifest) {
  const lacks = lacking(manifest);
  const { checkpoints: entries = [] } = trainingData(manifest) ?? {};
  return withCommonPercentiles(
    entries.map((entry, index) => {
      const data = (kind) => manifest.sections.find((one) => one.kind === kind && one.agent === entry.agent)?.data;
      const agent = manifest.agents.find(({ id }) => id === entry.agent) ?? {};
      const own = { agent, observation: agent.observation, actions: agent.actions ?? [], trajectories: [] };
      const [played, saliency] = [data("trajectories"), data("saliency") ?? null];
      const done = !lacks(played) && !lacks(saliency);
      return { ...entry, index, done, manifest: { ...manifest, ...own, ...(done ? played : {}) }, saliency };
    }),
  );
}

/** Maps of all checkpoints have one scale: the largest of the checkpoints' percentiles. */
function withCommonPercentiles(checkpoints) {
  const most = (name, output) =>
    Math.max(...checkpoints.map((one) => methodNamed(one, name)?.percentile?.[output] ?? 0));
  const common = ({ percentile, ...method }) =>
    percentile
      ? {
          ...method,
          percentile: Object.fromEntries(Object.keys(percentile).map((output) => [output, most(method.name, output)])),
        }
      : method;
  return checkpoints.map((one) => ({
    ...one,
    saliency: one.saliency && { ...one.saliency, methods: one.saliency.methods.map(common) },
  }));
}

export const trainingData = ({ sections }) => sections.find(({ kind }) => kind === "training")?.data;

/**
 * What the page knows of the episode that all checkpoints were shown, or null: also `checkpoint`, with the manifest of the
 * recording that it is in, which may be none of the checkpoint's own.
 */
export function readReference(manifest, checkpoints) {
  const reference = trainingData(manifest)?.reference;
  const owner = checkpoints.find(({ agent }) => agent === reference?.agent);
  if (!owner) return null;
  const other = reference.recording !== owner.recording && sectionOf(manifest, "trajectories", reference.recording);
  const checkpoint = other ? { ...owner, manifest: { ...owner.manifest, ...other.data } } : owner;
  const steps = checkpoint.manifest.trajectories[reference.trajectory]?.steps;
  return steps && !lacking(manifest)(reference) ? { ...reference, checkpoint, steps } : null;
}

const sectionOf = ({ sections }, kind, recording) =>
  sections.find((one) => one.kind === kind && one.recording === recording);

/** Why a page cannot be shown, or null. */
export function problemWith(manifest) {
  const checkpoints = readCheckpoints(manifest);
  if (!checkpoints.length) return "This page has no checkpoints.";
  const done = checkpoints.filter((checkpoint) => checkpoint.done);
  if (!done.length) return `This page is unfinished. ${unfinished({ checkpoints, reference: null })}`;
  const without = done.find(({ manifest: { trajectories } }) => !trajectories.length);
  return without ? `This page has no episodes of checkpoint “${without.name}”.` : null;
}

/** What is done, and what is not computed yet; checkpoints are compared when all are done. */
export function unfinished({ checkpoints, reference }) {
  const rest = checkpoints.filter(({ done }) => !done).map(({ name }) => name);
  const names = [...rest, ...(reference ? [] : ["the comparison on one episode"]), "numbers of all checkpoints"];
  const done = `${checkpoints.length - rest.length} of ${checkpoints.length} checkpoints are done.`;
  return `${done} Not computed yet: ${names.join(", ")}. If the command was stopped, run it again to continue.`;
}

/** Steps of the longest play of each episode: the page's time runs so far. */
export function episodeLengths(checkpoints, reference) {
  const count = Math.max(...checkpoints.map(({ manifest }) => manifest.trajectories.length));
  return Array.from({ length: count }, (_, episode) =>
    Math.max(reference?.steps ?? 1, ...checkpoints.map(({ manifest }) => manifest.trajectories[episode]?.steps ?? 1)),
  );
}

/** "A", ..., "Z", "AA", ...: what a chosen checkpoint is called. */
export const letterOf = (place) =>
  (place < 26 ? "" : letterOf(Math.floor(place / 26) - 1)) + String.fromCharCode(65 + (place % 26));

/** Colors of the chosen checkpoints, which read on each theme, and differ from those of the outputs. */
const COLORS = {
  light: ["#b45309", "#0f766e", "#86198f", "#4d6b00", "#7c4a2d", "#475569"],
  dark: ["#fdba5c", "#4fd8c4", "#e29bf0", "#c4dc5a", "#e0b08a", "#b6c2d3"],
  "safe light": ["#37152f", "#8c19ff", "#e8305e", "#000075", "#750000", "#c655ec"],
  "safe dark": ["#ffffbd", "#a142ff", "#e8305e", "#8e6f10", "#a1a1a1", "#bdffee"],
};

export const checkpointColor = (place, tone) => COLORS[tone][place % COLORS[tone].length];

/** Choose a checkpoint as A; `more`: add it, or remove it if it is chosen. */
export function choose({ selection }, index, more) {
  const { chosen } = selection.now;
  if (!more) return selection.change({ chosen: [index, ...chosen.slice(1).filter((other) => other !== index)] });
  return selection.change({
    chosen: chosen.includes(index) ? chosen.filter((other) => other !== index) : [...chosen, index],
  });
}
