// The tracks of an episode: numbers over time.
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
];

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
