// Measured effects of objects as tables.
import { effectsOn, objectsChunk, objectsOf } from "../../data/objects.js";
import { findOutput } from "../../data/questions.js";
import { csvFile } from "../../kit/export/files.js";
import { outputName } from "../../kit/shell/format.js";
import { firstTarget } from "./rows.js";

/** The files of a page with effects of objects; none without. @returns {import("../../kit/export/files.js").File[]} */
export const objectTables = (manifest, stem) =>
  objectsOf(manifest)
    ? [
        { id: "objects", label: "Objects (CSV)", make: objectsCsv, name: `${stem}-objects.csv` },
        { id: "object-types", label: "Types of objects (CSV)", make: typesCsv, name: "objects.csv" },
      ]
    : [];

/** Every removal of the first row's trajectory. @returns {Promise<Blob>} */
async function objectsCsv({ manifest, selection, chunks }) {
  const { trajectory, output } = firstTarget(manifest, selection.now);
  const name = objectsChunk(manifest, trajectory);
  if (!name) throw new Error(`No frame of trajectory ${trajectory + 1} was measured.`);
  const { types } = objectsOf(manifest).trajectories[trajectory];
  const [{ arrays }, { arrays: series }] = await Promise.all(
    [name, manifest.trajectories[trajectory].series].map((one) => chunks.get(one)),
  );
  const outputs = [...new Set([...manifest.outputs, findOutput(manifest, output)])];
  const place = ["cells to the right", "cells up", "left", "top", "right", "bottom"];
  const header = ["trajectory", "frame", "type", "objects", "object", ...place, "effect on the policy"];
  const prefixes = /** @type {const} */ (["", "together."]);
  const lines = prefixes.flatMap((prefix) => {
    const of = (key) => arrays[`${prefix}${key}`].data;
    const effects = outputs.map((one) => effectsOn(arrays, one, series, prefix));
    return Array.from(of("frame"), (frame, i) => [
      ...[trajectory + 1, frame + 1, types[of("type")[i]]],
      ...(prefix
        ? [of("count")[i], ...new Array(1 + place.length).fill("")]
        : [1, of("track")[i] + 1, ...of("offset").subarray(2 * i, 2 * i + 2), ...of("box").subarray(4 * i, 4 * i + 4)]),
      of("policy")[i],
      ...effects.map((values) => values?.[i]),
    ]);
  });
  return csvFile([[...header, ...outputs.map((one) => `effect on ${outputName(one)}`)], ...lines]);
}

/** The table by type. */
function typesCsv({ manifest }) {
  const { types } = objectsOf(manifest);
  const measures = ["value", "value_magnitude", "policy", "together_value", "together_policy"];
  const columns = measures.flatMap((key) => ["mean", "low", "high"].map((end) => [key, end]));
  return csvFile([
    [
      "type",
      "n",
      "different objects",
      "frames",
      "episodes",
      "share above noise",
      ...columns.map((one) => one.join(" ")),
    ],
    ...types.map(({ name, count, tracks, frames, episodes, share_above_noise: share, ...means }) => [
      ...[name, count, tracks, frames, episodes, share],
      ...columns.map(([key, end]) => means[key]?.[end]),
    ]),
  ]);
}
