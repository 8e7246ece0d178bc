// The axes of steps: numbers that each step of an episode has, and what brushes on them leave.
import { recent } from "../../data/cache.js";
import { mapIndex } from "../../data/saliency.js";
import { brushOf, rangesIn } from "../../kit/time/brush.js";
import { methodNamed } from "./checkpoints.js";
import { regionName, sharesOf, totalsOf } from "./maps.js";
import { commonRange, entropies, largest, returnsToCome, valuesOf } from "../../kit/time/numbers.js";
import { regionCount } from "./regions.js";

const data = (array) => array?.data ?? null;

/** In the order that a page opens with; those of regions follow the first one. */
const NUMBERS = {
  step: { label: "step", values: ({ rewards }) => Float64Array.from(rewards.data.keys()) },
  value: { label: "value", values: valuesOf },
  advantage: { label: "advantage", values: ({ advantages }) => data(advantages) },
  entropy: { label: "entropy", values: ({ probabilities }) => probabilities && entropies(probabilities) },
  probability: { label: "largest probability", values: ({ probabilities }) => probabilities && largest(probabilities) },
  reward: { label: "reward", values: ({ rewards }) => data(rewards) },
  return: { label: "return-to-go", values: ({ rewards, firsts }) => returnsToCome(rewards.data, data(firsts)) },
};

/** Those that maps have, as regions do. */
const OF_MAPS = [{ key: "total", label: "total saliency" }];

const regionKey = (k) => `region-${k + 1}`;

/** The numbers of each axis along an episode; at steps between maps regions have those of the last map. */
const columnsOf = recent(
  ({ series, maps, centers, regions, output }) => {
    const numbers = Object.entries(NUMBERS).map(([key, { values }]) => [key, values(series)]);
    const shares = maps && centers ? sharesOf(maps, output, centers, regions) : null;
    const held = (share) =>
      Float64Array.from(series.rewards.data, (_, t) => {
        const at = mapIndex(maps, t);
        return at < 0 ? NaN : share[at];
      });
    const ofRegions = (shares ?? []).map((share, k) => [regionKey(k), held(share)]);
    const totals = maps && totalsOf(maps, output);
    return Object.fromEntries(
      [...numbers, ...ofRegions, ["total", totals && held(totals)]].filter(([, values]) => values),
    );
  },
  ({ series, maps, centers, regions, output }) => [series, maps, centers, regions, output],
  64,
);

/** The columns of a checkpoint's play; null while it is loading. */
export function playColumns({ checkpoints }, { method, regions, output }, plays, index) {
  const { series, maps } = plays[index];
  const centers = methodNamed(checkpoints[index], method)?.centers ?? null;
  return series && columnsOf({ series, maps, centers, regions, output });
}

/** What a checkpoint computes for the shown episode, with the rewards of that episode; advantages are of who played it. */
const withOutputs = recent(
  ({ series, maps: { arrays } }) => ({ ...series, advantages: undefined, ...arrays }),
  ({ series, maps }) => [series, maps],
  64,
);

/**
 * The steps of the episode that all checkpoints were shown at which brushes hold the numbers of a chosen checkpoint.
 *
 * @param {any} manifest
 * @param {any} selection
 * @param {object | null} series arrays of that episode; null while they are loading
 * @param {any[]} shown outputs and maps of every checkpoint
 * @returns {number[][]} ranges [first, last]; none without brushes
 */
export function shownRanges({ checkpoints }, { brushes, chosen, method, regions, output }, series, shown) {
  if (!series || !Object.keys(brushes).length) return [];
  const masks = chosen
    .filter((index) => shown[index])
    .map((index) => {
      const centers = methodNamed(checkpoints[index], method)?.centers ?? null;
      const [own, maps] = [
        withOutputs({ series, maps: shown[index] }),
        shown[index].arrays.steps ? shown[index] : null,
      ];
      return maskOf(columnsOf({ series: own, maps, centers, regions, output }), brushes);
    });
  const held = Array.from(masks[0] ?? [], (_, step) => ({ episode: 0, step })).filter(({ step }) =>
    masks.some((mask) => mask[step]),
  );
  return rangesIn(brushOf(held), "", 0);
}

/** Keys and labels of the axes in the selection's order. @returns {{key: string, label: string, decimals?: number}[]} */
export function axesOf({ regions, axes }) {
  const names = Array.from({ length: regionCount(regions) }, (_, k) => ({
    key: regionKey(k),
    label: regionName(regions, k),
  }));
  const [step, ...others] = Object.entries(NUMBERS).map(([key, { label }]) => ({ key, label }));
  const all = [step, ...names, ...OF_MAPS, ...others];
  const ordered = axes.map((key) => all.find((axis) => axis.key === key)).filter(Boolean);
  return [...ordered, ...all.filter((axis) => !ordered.includes(axis))];
}

/** Which steps of an episode all brushes hold, one byte each. */
export function maskOf(columns, brushes) {
  const mask = new Uint8Array(columns.step.length).fill(1);
  for (const [key, [low, high]] of Object.entries(brushes)) {
    const values = columns[key];
    if (!values) continue;
    for (let t = 0; t < mask.length; t += 1) if (!(values[t] >= low && values[t] <= high)) mask[t] = 0;
  }
  return mask;
}

/** What all that is shown is made of: the axes with their ranges, and the columns of each chosen checkpoint. */
export function chosenColumns(manifest, selection, plays) {
  const groups = selection.chosen.map((index) => ({
    index,
    columns: playColumns(manifest, selection, plays, index),
  }));
  const ready = groups.filter(({ columns }) => columns);
  const axes = axesOf(selection)
    .filter(({ key }) => ready.some(({ columns }) => columns[key]))
    .map((axis) => ({ ...axis, range: rangeOfAxis(axis, ready) }));
  return { axes, groups: ready };
}

const rangeOfAxis = ({ key }, groups) =>
  commonRange(groups.map(({ columns }) => columns[key]?.filter(Number.isFinite)));

const marksOf = recent(
  ({ manifest, groups, episode, brushes }) =>
    brushOf(
      groups.flatMap(({ index, columns }) => {
        const mask = maskOf(columns, brushes);
        const { agent: checkpoint } = manifest.checkpoints[index];
        return Array.from(mask.keys(), (step) => ({ checkpoint, episode, step })).filter(({ step }) => mask[step]);
      }),
    ),
  ({ groups, episode, brushes }) => [brushes, episode, ...groups.map(({ columns }) => columns)],
  4,
);

/** The steps that brushes hold, as a brush of the kit; null without brushes. */
export function brushedSteps(manifest, selection, plays) {
  const { brushes, chosen, episode } = selection;
  if (!Object.keys(brushes).length) return null;
  const groups = chosen.map((index) => ({ index, columns: playColumns(manifest, selection, plays, index) }));
  return marksOf({ manifest, groups: groups.filter(({ columns }) => columns), episode, brushes });
}
