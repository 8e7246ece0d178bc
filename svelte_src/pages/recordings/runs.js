// The runs of a page of recordings, and the table of their episodes (docs/page-format.md, "Section episodes").

/**
 * @typedef {object} Run
 * @property {string} id of its recording
 * @property {string} name
 * @property {string | null} error why it cannot be read
 * @property {any} manifest what components of the kit read of a page, for this run alone: the same object for as long as the
 *   page is open, its `trajectories` as they are known
 * @property {object[]} listed its trajectories as the page's manifest lists them, perhaps as `{steps, entry}`
 * @property {import("../../data/sections").SaliencySection | null} saliency data of its section `saliency`
 * @property {import("../../data/sections").StateMapSection | null} stateMap data of its section `state_map`
 * @property {import("../../data/sections").UpdatesSection | null} updates data of its section `updates`
 * @property {Map<number, object>} loaded what entries said: {entry, trajectory, sections}
 * @property {Map<number, object[]>} sections those of single episodes, by index of the episode
 *
 * @typedef {import("../../data/sections").EpisodeRow & Extra} Row an entry of `episodes`, and more
 *
 * @typedef {object} Extra
 * @property {string} key "RUN~EPISODE", which selection and address call it
 * @property {Run} of
 * @property {string} name of the run
 */

export { methodNamed, methodsOf } from "../../data/saliency.js";

const episodesData = ({ sections }) => sections.find(({ kind }) => kind === "episodes")?.data;

/**
 * @param {object} manifest
 * @param {{runs: Run[]}} before the runs as they were
 * @returns {{runs: Run[], rows: Row[], byKey: Map<string, Row>, live: boolean, logdir: string | null}}
 */
export function readTable(manifest, before = { runs: [] }) {
  const { runs: listed = [], episodes = [], live = false, logdir = null } = episodesData(manifest) ?? {};
  const known = [...before.runs];
  const runs = listed.map((entry) => readRun(manifest, entry, known));
  const byKey = new Map();
  const rows = [];
  for (const episode of episodes) {
    const of = runs[episode.run];
    if (!of) continue;
    const key = freeKey(byKey, `${of.name}~${episode.episode ?? episode.trajectory}`);
    const row = { ...episode, key, of, name: of.name };
    byKey.set(key, row);
    rows.push(row);
  }
  return { runs, rows, byKey, live, logdir };
}

/** Programs that were started again may use a number twice. */
function freeKey(taken, key) {
  let free = key;
  for (let count = 2; taken.has(free); count += 1) free = `${key}.${count}`;
  return free;
}

function readRun(manifest, { recording: id, name, error = null }, before) {
  const data = (kind) => manifest.sections.find((one) => one.kind === kind && one.recording === id)?.data;
  const { agent: agentId, env_name = "" } = manifest.recordings.find((one) => one.id === id) ?? {};
  const agent = manifest.agents.find((one) => one.id === agentId) ?? {};
  const trajectories = data("trajectories") ?? { trajectories: [] };
  const single = manifest.sections.filter(({ recording, trajectory }) => recording === id && trajectory !== undefined);
  const known = before.find((one) => one.name === name);
  const run = known ?? { name, manifest: {}, loaded: new Map() };
  if (!known) before.push(run);
  Object.assign(run, { id, error, listed: trajectories.trajectories });
  run.saliency = data("saliency") ?? null;
  run.stateMap = data("state_map") ?? null;
  run.updates = data("updates") ?? null;
  Object.assign(run.manifest, manifest, trajectories, { agent, env_name });
  Object.assign(run.manifest, { observation: agent.observation, actions: agent.actions ?? [] });
  run.manifest.trajectories = run.listed.map((one, i) => run.loaded.get(i)?.trajectory ?? one);
  run.sections = new Map();
  for (const section of single) addSections(run, section.trajectory, [section]);
  for (const [i, { sections }] of run.loaded) addSections(run, i, sections);
  return run;
}

/** Put what an entry said where components look for it. */
export function addEntry(run, index, entry, { trajectory, sections = [] }) {
  run.loaded.set(index, { entry, trajectory, sections });
  run.manifest.trajectories[index] = trajectory;
  run.sections.delete(index);
  addSections(run, index, sections);
}

/** Sections whose only trajectory is an episode: maps of saliency go where those of all episodes are. */
function addSections(run, index, sections) {
  for (const { kind, data } of sections) if (kind === "saliency") addSaliency(run, index, data);
  const others = sections.filter(({ kind }) => kind !== "saliency").map((one) => sectionAt(one, index));
  if (others.length) run.sections.set(index, [...(run.sections.get(index) ?? []), ...others]);
}

function addSaliency({ saliency }, index, { methods, differences = [] }) {
  if (saliency) saliency.differences = Object.assign(saliency.differences ?? [], { [index]: differences[0] ?? null });
  for (const { name, maps, scales } of methods) {
    const method = saliency?.methods.find((one) => one.name === name);
    if (!method) continue;
    method.maps[index] = maps[0];
    for (const [output, values] of Object.entries(scales)) {
      if (method.scales[output]) method.scales[output][index] = values[0];
    }
  }
}

/** A section of an episode, as panels find it on a page on which the episode has an index. */
function sectionAt(section, index) {
  const data = { ...section.data };
  if (data.trajectories) data.trajectories = Object.assign([], { [index]: data.trajectories[0] });
  for (const list of ["rows", "images"]) {
    if (data[list]) data[list] = data[list].map((one) => ("frame" in one ? { ...one, trajectory: index } : one));
  }
  return { ...section, id: section.kind, data };
}

/** TensorBoard's colors of runs, on a light and on a dark page, and that of runs that an expression leaves out. */
const RUN_COLORS = ["#425066", "#12b5cb", "#e52592", "#f9ab00", "#9334e6", "#7cb342", "#e8710a"];
const DARK_SLATE = "#8e98a3";
const UNGROUPED = "#9e9e9e";

/** A regular expression of a reader, as TensorBoard reads it; null if there is none, or it is not complete. */
export function expressionOf(text) {
  try {
    return text ? new RegExp(text, "i") : null;
  } catch {
    return null;
  }
}

/**
 * The color of each run, given as TensorBoard gives them: in the order in which runs began; with an expression, runs have one
 * color whose names give the same captures.
 *
 * @param {{runs: Run[], rows: Row[]}} table
 * @param {string} group a regular expression, or ""
 * @param {string} theme
 * @returns {Map<Run, string>}
 */
export function runColors({ runs, rows }, group, theme) {
  const began = new Map();
  for (const { of, time } of rows) began.set(of, Math.min(began.get(of) ?? Infinity, time ?? Infinity));
  const beginOf = (run) => began.get(run) ?? Infinity;
  const order = (a, b) => (beginOf(a) === beginOf(b) ? (a.name < b.name ? -1 : 1) : beginOf(a) - beginOf(b));
  const ordered = [...runs].sort(order);
  const expression = expressionOf(group);
  const keyOf = ({ name }) => {
    if (!expression) return name;
    const match = expression.exec(name);
    return match && JSON.stringify(match.slice(1));
  };
  const keys = [...new Set(ordered.map(keyOf))].filter((key) => key !== null);
  const colorAt = (place) => (place === 0 && theme === "dark" ? DARK_SLATE : RUN_COLORS[place]);
  return new Map(
    ordered.map((run) => [
      run,
      keyOf(run) === null ? UNGROUPED : colorAt(keys.indexOf(keyOf(run)) % RUN_COLORS.length),
    ]),
  );
}

/** The further sections of an episode. */
export const sectionsOf = ({ of, trajectory }) => of.sections.get(trajectory) ?? [];

/** Whether an episode's entry is to be fetched: it has not been, or it has changed. */
export function isOutdated({ listed, loaded }, index) {
  const { entry } = listed[index] ?? {};
  return entry !== undefined && loaded.get(index)?.entry !== entry;
}

/** Steps of an episode that the page knows files of. */
export const knownSteps = ({ of, trajectory }) => of.manifest.trajectories[trajectory]?.steps || 1;

/** The episode that began last. */
export const newest = (rows) =>
  rows.reduce((best, row) => (best && (best.time ?? -Infinity) > (row.time ?? -Infinity) ? best : row), null);

export const rowOf = ({ rows }, run, trajectory) =>
  rows.find((row) => row.of === run && row.trajectory === trajectory) ?? null;

/** "exp1, episode 50" */
export const episodeName = ({ name, episode, trajectory }) => `${name}, episode ${episode ?? trajectory}`;

/** The command that explains what is recorded in a log directory, with the options of a run's explanations. */
export function explainCommand({ logdir }, { saliency, stateMap }) {
  const words = ["rl-clarity", "explain", logdir];
  const methods = saliency?.methods.map(({ name }) => name) ?? [];
  if (methods.length) words.push("--methods", ...methods, "--every", String(saliency.every));
  const embeddings = stateMap?.maps.map(({ method }) => method) ?? [];
  if (embeddings.length) words.push("--embeddings", ...embeddings);
  return words.map(quoted).join(" ");
}

/** A word as a shell reads it. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
