// What a reader selects on the page of an agent: `?layer=2b&trajectory=3&frame=120`.
import { KINDS, SEARCH } from "../../data/find.js";
import { hasFeatures } from "../../data/manifest.js";
import { naming } from "../../data/names.js";
import { PALETTE } from "../../kit/page/fields.js";
import { frameName } from "../../kit/shell/format.js";
import { boxFromText, boxToText } from "./box.js";
import { CHANNELS, FEATURE, SOLO } from "./channels.js";
import { OBJECT, typeNames } from "./objects.js";
import { firstOutput, isOriginal, ROWS } from "./rows.js";

/**
 * @typedef {object} Selection
 * @property {number} trajectory
 * @property {number} frame
 * @property {number} layer
 * @property {import("./rows.js").Row[]} rows
 * @property {number | "mean" | null} instead what decompositions begin with: a frame, the mean of the episode; null: the baseline
 * @property {Object<number, number[]>} channels of each layer (by its index) the channels that are shown; all where it has none
 * @property {boolean} residual whether the residual is shown
 * @property {boolean} mixed hues of all features mixed, as in the paper; otherwise a position has that of its strongest feature
 * @property {boolean} combined positive and negative in one image
 * @property {boolean} overlay over the observation
 * @property {boolean} grey the observation below saliency is grey
 * @property {number} opacity of attribution over the observation
 * @property {number} threshold opacity below which a position stays empty
 * @property {boolean} smooth
 * @property {"rows" | "trajectory" | "frame" | "all"} scale what has a scale of its own; "rows": those of one layer and unit share
 *   one; "all": so do those of all trajectories
 * @property {boolean} columns rows side by side
 * @property {number} visible steps that the timeline shows at a time
 * @property {"standard" | "safe"} palette of the channels; "safe": for color-blind readers
 * @property {{layer: number, channel: number} | null} solo the channel that images of its layer show alone
 * @property {import("../../data/find.js").Search | null} find frames that are looked for
 * @property {import("./box.js").Box | null} box a part of the observation whose attribution is shown over time
 * @property {{layer: number, channel: number} | null} feature that is open
 * @property {boolean} objects boxes around objects
 * @property {number | null} type of objects whose frames are listed
 * @property {{trajectory: number, track: number} | null} object whose effect is shown over time
 * @property {string} edit what is changed in the panel What if (live/edit.js); "" while it is closed
 * @property {Object<string, Object<number, string>>} names that the reader gave to features (data/names.js)
 */

/** The layer that the page names, or the middle one in pages of earlier versions. */
function defaultLayer(manifest) {
  const named = manifest.layers.findIndex(({ key }) => key === manifest.opening);
  const layers = manifest.layers.map((layer, index) => ({ layer, index })).filter(({ layer }) => hasFeatures(layer));
  return named < 0 && layers.length ? layers[Math.floor((layers.length - 1) / 2)].index : Math.max(named, 0);
}

const defaultVisible = ({ view }) => Math.round(Number(view?.scrubber_visible_duration)) || 256;

/** What a step is compared with: null (the baseline), "mean" (of its episode), or a step of its trajectory. */
const INSTEAD = {
  initial: null,
  clamp: (value, { manifest, selection }) =>
    Number.isFinite(value)
      ? Math.max(0, Math.min(Math.round(value), manifest.trajectories[selection.trajectory].steps - 1))
      : value,
  format: (value) => (typeof value === "number" ? value + 1 : value),
  parse: (text) => (text === "mean" ? text : /^\d{1,7}$/.test(text) ? Number(text) - 1 : undefined),
};

const BOX = {
  initial: null,
  format: (box) => box && boxToText(box),
  parse: (text, { manifest }) => boxFromText(manifest.observation, text),
};

/** @type {import("../../kit/page/fields.js").Field[]} */
export const FIELDS = [
  {
    name: "layer",
    type: "index",
    keys: ({ layers }) => layers.map(({ key }) => key),
    default: defaultLayer,
    always: true,
    place: true,
  },
  {
    name: "trajectory",
    type: "index",
    count: ({ trajectories }) => trajectories.length,
    always: true,
    place: true,
  },
  {
    name: "frame",
    type: "index",
    count: ({ trajectories }, { trajectory }) => trajectories[trajectory]?.steps ?? 1,
    always: true,
  },
  {
    name: "rows",
    type: ROWS,
    default: (manifest) => [{ output: firstOutput(manifest), layer: null, trajectory: null }],
  },
  { name: "instead", type: INSTEAD },
  { name: "channels", type: CHANNELS },
  { name: "residual", type: "flag", default: (manifest) => !isOriginal(manifest) },
  { name: "mixed", type: "flag", default: isOriginal },
  { name: "combined", type: "flag" },
  { name: "columns", type: "flag" },
  { name: "overlay", type: "flag", default: ({ observation }) => observation?.aligned ?? true },
  { name: "grey", type: "flag", default: true },
  { name: "smooth", type: "flag", default: true },
  { name: "opacity", type: "number", least: 0, most: 1, default: ({ view }) => view?.attribution_weight ?? 0.9 },
  { name: "threshold", type: "number", least: 0, most: 1 },
  {
    name: "scale",
    type: "choice",
    options: ["rows", "trajectory", "frame", "all"],
    default: (manifest) => (isOriginal(manifest) ? "trajectory" : "rows"),
  },
  {
    name: "visible",
    type: "number",
    whole: true,
    least: (manifest) => Math.min(16, defaultVisible(manifest)),
    most: (manifest) => Math.max(256, defaultVisible(manifest), ...manifest.trajectories.map(({ steps }) => steps)),
    default: defaultVisible,
  },
  PALETTE,
  { name: "solo", type: SOLO },
  { name: "find", type: SEARCH, of: (manifest) => manifest, conditions: KINDS.agent },
  { name: "box", type: BOX },
  { name: "feature", type: FEATURE, place: true },
  { name: "objects", type: "flag" },
  { name: "type", type: "index", keys: typeNames, default: null, place: true },
  { name: "object", type: OBJECT },
  { name: "edit", type: "text", longest: 2000 },
  { name: "names", key: "name", type: "names", of: (manifest) => manifest, stays: true },
];

/** What a note can be on: the frame in view, and the feature {layer, channel} that was looked at last. */
export function notes(manifest, selection, feature) {
  const layer = manifest.layers[selection.layer];
  const view = { place: `${frameName(selection)}${layer ? `, layer ${layer.name}` : ""}`, patch: { feature: null } };
  if (!feature) return [view];
  const name = naming(manifest, selection.names).name(feature.layer, feature.channel);
  const number = `feature ${feature.channel + 1} of layer ${manifest.layers[feature.layer].name}`;
  return [view, { place: name ? `${name}, ${number}` : number, patch: { layer: feature.layer, feature } }];
}
