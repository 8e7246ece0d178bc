// Objects on the page: which one is selected, how types are drawn, and their table as a file.
import { areaOf, objectsOf, sumInAreas } from "../../data/objects.js";
import { SAFE_HUES } from "../../kit/image/colors.js";
import { targetValues } from "./image.js";

/** The field of the object that is shown over time: "2~13" is object 13 of the second trajectory. */
export const OBJECT = {
  initial: null,
  clamp: (object, { manifest: { trajectories }, before }) =>
    isObject(before, object) ? before : object && trajectories[object.trajectory] && object.track >= 0 ? object : null,
  format: (object) => object && `${object.trajectory + 1}~${object.track + 1}`,
  parse(text) {
    const [trajectory, track] = /^\d+~\d+$/.test(text) ? text.split("~").map(Number) : [0, 0];
    return { trajectory: trajectory - 1, track: track - 1 };
  },
};

export const isObject = (one, other) =>
  Boolean(one && other) && one.trajectory === other.trajectory && one.track === other.track;

/** Names of all types, as the selection numbers them. */
export const typeNames = (manifest) => objectsOf(manifest)?.types.map(({ name }) => name) ?? [];

export const typeColor = (manifest, type) =>
  /** @type {string} */ (SAFE_HUES.at(typeNames(manifest).indexOf(type) % SAFE_HUES.length));

/** The unit of effects on an output. */
export const unitOf = ({ agent }, { kind }) =>
  kind === "value" ? "" : agent.kind === "policy" ? "logits" : "action values";

/**
 * The attribution of each place of removals: the sum over all features and the residual; null where the images show no attribution.
 *
 * @param {object} page
 * @param {object} target what the first row shows
 * @param {object} arrays of a chunk
 * @param {{objects: number[]}[]} removals
 */
export function attributionOf(page, target, arrays, removals) {
  const section = /** @type {import("../../data/sections").ObjectsSection} */ (objectsOf(page.manifest));
  const layer = page.manifest.layers[target.layer];
  const values = layer && layer.kind !== "saliency" ? targetValues(page, target) : null;
  return removals.map(({ objects }) =>
    values
      ? sumInAreas(
          values,
          layer,
          objects.map((i) => areaOf(arrays, i, section)),
        )
      : null,
  );
}
