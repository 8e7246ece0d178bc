// The checkpoints of a training page, each with its episodes and its saliency maps.

/**
 * @typedef {object} Checkpoint
 * What the section `training` says of it (docs/page-format.md), and
 * @property {number} index in order of training
 * @property {object} manifest what components of the kit read of a page, for this checkpoint alone
 * @property {object | null} saliency data of its section `saliency`
 */

/** @returns {Checkpoint[]} */
export function readCheckpoints(manifest) {
  return (trainingData(manifest)?.checkpoints ?? []).map((entry, index) => {
    const data = (kind) => manifest.sections.find((one) => one.kind === kind && one.agent === entry.agent)?.data;
    const agent = manifest.agents.find(({ id }) => id === entry.agent) ?? {};
    const own = { agent, observation: agent.observation, actions: agent.actions ?? [], trajectories: [] };
    return {
      ...entry,
      index,
      manifest: { ...manifest, ...own, ...data("trajectories") },
      saliency: data("saliency") ?? null,
    };
  });
}

export const trainingData = ({ sections }) => sections.find(({ kind }) => kind === "training")?.data;

/** What the page knows of the episode that all checkpoints were shown, or null. */
export function readReference(manifest, checkpoints) {
  const reference = trainingData(manifest)?.reference;
  const owner = checkpoints.find(({ agent }) => agent === reference?.agent);
  const steps = owner?.manifest.trajectories[reference.trajectory]?.steps;
  return steps ? { ...reference, owner: owner.index, steps } : null;
}

/** The methods of saliency maps that any checkpoint has, each once. */
export function methodsOf(checkpoints) {
  const all = checkpoints.flatMap(({ saliency }) => saliency?.methods ?? []);
  return all.filter(({ name }, i) => all.findIndex((other) => other.name === name) === i);
}

/** A checkpoint's maps by one method, or null. */
export const methodNamed = ({ saliency }, name) => saliency?.methods.find((method) => method.name === name) ?? null;

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

/** Colors of the chosen checkpoints, which read on each theme; blue and red are those of the policy and the value. */
const COLORS = {
  light: ["#b45309", "#0f766e", "#86198f", "#4d6b00", "#7c4a2d", "#475569"],
  dark: ["#fdba5c", "#4fd8c4", "#e29bf0", "#c4dc5a", "#e0b08a", "#b6c2d3"],
};

export const checkpointColor = (place, theme) => COLORS[theme][place % COLORS[theme].length];
