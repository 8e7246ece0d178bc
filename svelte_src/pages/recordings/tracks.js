// The tracks of an episode: numbers over time.
import { formatNumber } from "../../kit/shell/format.js";
import { entropies, cumulative, valuesOf } from "../../kit/time/numbers.js";

const INFO = "info.";

/**
 * Tracks by key; `values`: the numbers of a series, or null where it has none.
 *
 * @typedef {object} EpisodeTrack
 * @property {string} key
 * @property {string} label
 * @property {(series: any) => ArrayLike<number> | null} [values]
 * @property {string} [kind] of output, which has the track's color
 * @property {boolean} [rewards] whether rewards are marked
 */

/** @type {EpisodeTrack[]} */
const TRACKS = [
  { key: "film", label: "Filmstrip" },
  { key: "reward", label: "Reward", values: ({ rewards }) => rewards?.data ?? null, kind: "greedy" },
  { key: "return", label: "Return so far", values: returnSoFar, kind: "group", rewards: true },
  { key: "value", label: "Value", values: valuesOf, kind: "value" },
  { key: "advantage", label: "Advantage", values: ({ advantages }) => advantages?.data ?? null, kind: "advantage" },
  { key: "policy", label: "Probabilities", values: ({ probabilities }) => probabilities?.data ?? null },
  { key: "entropy", label: "Entropy", values: entropyOver, kind: "action" },
  {
    key: "differs",
    label: "Differs from the agent",
    values: ({ differs }) => differs?.data ?? null,
    kind: "advantage",
  },
];

/**
 * How far the network that is explained is from the one that acted, at each step: as at the last step that was compared.
 *
 * @param {{arrays: Object<string, {data: ArrayLike<number>}>}} chunk of `differences` at some `steps`
 * @param {number} count of steps of the episode
 */
export function differing({ arrays: { steps, differences } }, count) {
  const data = new Float32Array(count);
  for (let i = 0; i < steps.data.length; i += 1) data.fill(differences.data[i], steps.data[i]);
  return { data, shape: [count] };
}

/** Share of an output's range by which an explained network may differ from the one that acted. */
const TOLERANCE = 1e-3;

/** @returns {string} a sentence about the steps whose maps are of another network than the one that acted; or empty */
export function differenceText({ differs }) {
  const above = differs?.data.filter((share) => !(share <= TOLERANCE)).length ?? 0;
  if (!above) return "";
  const most = formatNumber(100 * differs.data.reduce((one, other) => Math.max(one, other), 0), 2);
  return `At ${above} of ${differs.data.length} steps, the maps are of a different network than the one that acted; the outputs of the two differ by up to ${most}% of their range. Recorder(checkpoint_every=1) stores the network of each update.`;
}

/** The sum of rewards up to and with each step. */
export function returnSoFar({ rewards }) {
  return rewards ? cumulative(rewards.data) : null;
}

/** The entropy of the policy at each step, in nats. */
export function entropyOver({ probabilities }) {
  return probabilities ? entropies(probabilities) : null;
}

const infoTrack = (key) => ({
  key,
  label: key.slice(INFO.length),
  values: (series) => series[key]?.data ?? null,
  kind: "advantage",
});

/** The tracks that any of several plays has. @param {import("./plays.js").Play[]} plays */
export function availableTracks(plays) {
  const all = plays.flatMap(({ series }) => (series ? [series] : []));
  /** @param {EpisodeTrack} track */
  const has = ({ key, values }) =>
    key === "film"
      ? plays.some(({ trajectory }) => Boolean(trajectory?.scrub.length))
      : all.some((series) => values?.(series));
  const infos = [...new Set(all.flatMap((series) => Object.keys(series).filter((key) => key.startsWith(INFO))))];
  return [...TRACKS.filter(has), ...infos.sort().map(infoTrack)];
}
