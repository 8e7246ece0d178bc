// What a page reports to a window that shows another page beside it: the numbers of its first row, its scales and its colors.
import { derived, get, readable } from "svelte/store";
import { causalNumbers, measured, scaleOf } from "../../data/causal.js";
import { hasFeatures } from "../../data/manifest.js";
import { findOutput } from "../../data/questions.js";
import { createResource } from "../../data/resource.js";
import { outputSeries, rowOf } from "../../data/series.js";
import { layerName, outputName } from "../../kit/shell/format.js";
import { targetDecomposition, waterfallRange } from "./decomposition.js";
import { attributionChunks, ownScales } from "./image.js";
import { firstOutput, firstTarget, shownTargets } from "./rows.js";

/** Names of scales. */
export const barKey = ({ slug }, output, measure) => `bar/${slug}/${output}/${measure}`;
export const waterfallKey = ({ slug }, { output, instead }) => `waterfall/${slug}/${output}/${instead}`;

/** The output that the legend's bars are of. */
export function measuredOutput(manifest, layer, output) {
  return [output?.id, firstOutput(manifest)].find((id) => layer.effects?.[id]);
}

/** A store of the report, which reads chunks only while it has subscribers. */
export function createReport(page) {
  const { manifest, selection, chunks, ownColors } = page;
  const [series, totals, codes, ablated] = Array.from({ length: 4 }, () => createResource(chunks));
  function want(now) {
    const { layer: index, trajectory } = firstTarget(manifest, now);
    const layer = manifest.layers[index];
    series.want(manifest.trajectories[trajectory].series);
    totals.want(layer?.totals?.[trajectory]);
    ablated.want(layer?.ablation?.trajectories?.[trajectory]);
    wantCodes();
  }
  /** Again when the series is there, since questions are answered with it. */
  function wantCodes() {
    const targets = manifest.layers.length ? shownTargets(manifest, selection.now) : [];
    codes.want(targets.flatMap((target) => (target.past ? [] : attributionChunks(page, target))));
  }
  const report = derived([selection, series, totals, ablated, codes, ownColors], ([now, along, sums, tested]) => {
    const [numbers, ...others] = [along, sums, tested].map(({ chunk }) => chunk?.arrays);
    return numbers ? reportOf(page, firstTarget(manifest, now), numbers, ...others) : null;
  });
  return readable(/** @type {any} */ (null), (set) => {
    const stops = [selection.subscribe(want), series.subscribe(wantCodes), report.subscribe(set)];
    return () => stops.forEach((stop) => stop());
  });
}

function reportOf(page, target, along, totals, ablated) {
  const { manifest, selection } = page;
  const { frame, output: id } = target;
  const layer = manifest.layers[target.layer];
  const output = findOutput(manifest, id);
  const value = (output && outputSeries(along, output)?.[frame]) ?? null;
  const decomposition =
    layer && totals && hasFeatures(layer) ? targetDecomposition(manifest, totals, target, along) : null;
  return {
    layer: layer?.slug ?? "",
    layerName: layer ? layerName(layer) : "",
    output: id,
    outputName: output ? outputName(output) : "",
    value,
    policy: along.probabilities ? rowAt(along.probabilities, frame) : null,
    actions: manifest.actions.map(({ label }) => label),
    attribution: decomposition && decomposition.features.map((values) => values[frame]),
    ...lostAt(ablated, id, frame),
    scales: {
      ...Object.assign({}, ...shownTargets(manifest, selection.now).map((one) => ownScales(page, one))),
      ...(decomposition && { [waterfallKey(layer, target)]: waterfallRange(decomposition) }),
      ...(layer && barScales(manifest, selection.now, output)),
    },
    colors: Object.fromEntries(
      manifest.layers.map(({ slug }, i) => [slug, get(page.ownColors)[i].map(({ color }) => color)]),
    ),
  };
}

const rowAt = (array, frame) => (frame < array.shape[0] ? rowOf(array, frame) : null);

/** What the output loses without each feature, at the last step where its ablation was measured. */
function lostAt(ablated, output, frame) {
  const change = ablated?.[`change.${output}`];
  const at = change ? ablated.frames.data.findLastIndex((step) => step <= frame) : -1;
  if (at < 0) return { lost: null, lostFrame: -1 };
  return { lost: rowOf(change, at)?.map((value) => -value), lostFrame: ablated.frames.data[at] };
}

function barScales(manifest, { layer: index }, output) {
  const layer = manifest.layers[index];
  if (!hasFeatures(layer)) return {};
  const id = measuredOutput(manifest, layer, output);
  const numbers = causalNumbers(layer, id);
  return Object.fromEntries(measured(numbers).map(({ key }) => [barKey(layer, id, key), [0, scaleOf(numbers, key)]]));
}
