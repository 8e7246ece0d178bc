// What a reader changes of the observations and the features, as text for the address and as a request to the network.

/**
 * @typedef {object} Box in pixels of the observation
 * @property {number[]} box left, top, right, bottom; right and bottom excluded
 * @property {"surroundings" | "color" | "frame"} fill
 * @property {number[]} [color] of `color`
 * @property {number} [trajectory] of `frame`, from 0
 * @property {number} [step]
 * @property {{trajectory: number, step: number}} [painted] where it was drawn, from 0: elsewhere other things are at its place
 *
 * @typedef {object} Edit
 * @property {number[]} objects that are removed (from 1 along the trajectory)
 * @property {Box[]} boxes in the order in which they are painted
 * @property {Record<string, Record<number, number>>} factors of features (from 1), by the slug of their layer
 * @property {Record<string, number[]>} baseline features (from 1) that are set to the page's baseline, by the slug of their layer
 * @property {Record<string, Record<number, number>>} added multiples of features' components (from 1), by the slug of their layer
 * @property {Record<string, number[]>} at where the features of a layer change, by its slug: first row, first column, row and
 *   column after the last; everywhere where it has none
 * @property {boolean} maps whether attribution is computed, too
 * @property {Record<string, number>} only the feature of a layer that is kept, by the layer's slug
 * @property {boolean} effects whether what is lost without each feature is computed, too
 * @property {number} last steps of the track before the one in view; 0: no track
 * @property {boolean} memory whether the state follows from the changed steps
 */

export const [LEAST, MOST] = [-2, 2];
const MOST_BEFORE = 511;
/** Largest multiple of a component that is added. */
export const MOST_ADDED = 100;

/** @returns {Edit} */
export const emptyEdit = () => ({
  objects: [],
  boxes: [],
  factors: {},
  baseline: {},
  added: {},
  at: {},
  only: {},
  maps: false,
  effects: false,
  last: 0,
  memory: false,
});

/** An object without a key. @template T @param {Record<string, T>} object @returns {Record<string, T>} */
export const without = (object, key) =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== String(key)));

/** Whether an edit changes anything. @param {Edit} edit */
export const changes = ({ objects, boxes, factors, baseline, added, only }) =>
  [objects, boxes, ...Object.values(baseline)].some((list) => list.length > 0) ||
  [only, ...Object.values(factors), ...Object.values(added)].some((one) => Object.keys(one).length > 0);

/** "around~16.8.32.24,times~2b~3~0.5"; "open" for an edit that changes nothing. @param {Edit} edit */
export function editToText({ objects, boxes, factors, baseline, added, at, only, maps, effects, last, memory }) {
  const items = objects.map((number) => `without~${number}`);
  for (const { box, fill, color = [], trajectory = 0, step = 0, painted } of boxes) {
    const words = [fill === "surroundings" ? "around" : fill, box.join(".")];
    if (fill === "color") words.push(color.map((part) => part.toString(16).padStart(2, "0")).join(""));
    if (fill === "frame") words.push(...numbersOf({ trajectory, step }));
    items.push([...words, ...(painted ? numbersOf(painted) : [])].join("~"));
  }
  for (const [slug, number] of Object.entries(only)) items.push(`only~${slug}~${number}`);
  for (const [slug, numbers] of Object.entries(baseline))
    items.push(...numbers.map((number) => `base~${slug}~${number}`));
  for (const [slug, numbers] of Object.entries(factors))
    for (const [number, factor] of Object.entries(numbers)) items.push(`times~${slug}~${number}~${factor}`);
  for (const [slug, numbers] of Object.entries(added))
    for (const [number, amount] of Object.entries(numbers)) items.push(`add~${slug}~${number}~${amount}`);
  for (const [slug, place] of Object.entries(at)) items.push(`at~${slug}~${place.join(".")}`);
  if (maps) items.push("maps");
  if (effects) items.push("effects");
  if (last) items.push(`last~${last}`);
  if (memory) items.push("memory");
  return items.join(",") || "open";
}

/**
 * An edit from the address, without what the page does not have.
 *
 * @param {string | null | undefined} text
 * @param {any} manifest as `readManifest` returns it
 */
export function editFromText(text, manifest) {
  const edit = emptyEdit();
  for (const item of (text ?? "").split(",")) {
    const [kind, ...parts] = item.split("~");
    READERS[Object.hasOwn(READERS, kind) ? kind : "unknown"](edit, parts, manifest);
  }
  return edit;
}

/** @type {Record<string, (edit: Edit, parts: string[], manifest: any) => void>} */
const READERS = {
  unknown() {},
  without(edit, [number]) {
    const isNew = /^[1-9]\d{0,5}$/.test(number) && !edit.objects.includes(Number(number));
    if (isNew) edit.objects.push(Number(number));
  },
  around(edit, [place, ...painted], manifest) {
    const box = boxFrom(place, manifest);
    if (box) edit.boxes.push({ box, fill: "surroundings", ...paintedAt(painted, manifest) });
  },
  color(edit, [place, code, ...painted], manifest) {
    const box = boxFrom(place, manifest);
    const color = code?.match(/^([0-9a-f]{2}){1,3}$/) && code.match(/../g)?.map((part) => parseInt(part, 16));
    if (box && color) edit.boxes.push({ box, fill: "color", color, ...paintedAt(painted, manifest) });
  },
  frame(edit, [place, episode, frame, ...painted], manifest) {
    const [box, from] = [boxFrom(place, manifest), momentFrom([episode, frame], manifest)];
    if (box && from) edit.boxes.push({ box, fill: "frame", ...from, ...paintedAt(painted, manifest) });
  },
  only(edit, [slug, number], manifest) {
    if (hasFeature(manifest, slug, Number(number))) edit.only[slug] = Number(number);
  },
  base(edit, [slug, number], manifest) {
    const known = edit.baseline[slug] ?? [];
    if (hasFeature(manifest, slug, Number(number)) && !known.includes(Number(number)))
      edit.baseline[slug] = [...known, Number(number)];
  },
  times(edit, [slug, number, text], manifest) {
    const factor = Number(text);
    if (!hasFeature(manifest, slug, Number(number)) || !(factor >= LEAST && factor <= MOST)) return;
    edit.factors[slug] = { ...edit.factors[slug], [Number(number)]: factor };
  },
  add(edit, [slug, number, text], manifest) {
    const amount = Number(text);
    if (!hasFeature(manifest, slug, Number(number)) || !(Math.abs(amount) <= MOST_ADDED && amount !== 0)) return;
    edit.added[slug] = { ...edit.added[slug], [Number(number)]: amount };
  },
  at(edit, [slug, text], manifest) {
    const layer = layersOf(manifest).find((one) => one.slug === slug);
    const place = /^\d{1,4}(\.\d{1,4}){3}$/.test(text) ? text.split(".").map(Number) : [0, 0, 0, 0];
    const [top, left, bottom, right] = place;
    if (layer && top < bottom && left < right && bottom <= layer.height && right <= layer.width) edit.at[slug] = place;
  },
  maps(edit) {
    edit.maps = true;
  },
  effects(edit) {
    edit.effects = true;
  },
  last(edit, [steps]) {
    if (/^\d{1,3}$/.test(steps)) edit.last = Math.min(MOST_BEFORE, Number(steps));
  },
  memory(edit) {
    edit.memory = true;
  },
};

function boxFrom(text, { observation: { height, width } }) {
  if (!/^\d{1,5}(\.\d{1,5}){3}$/.test(text)) return null;
  const box = text.split(".").map(Number);
  const [left, top, right, bottom] = box;
  return left < right && top < bottom && right <= width && bottom <= height ? box : null;
}

/** Trajectory and frame as text, from 1. */
const numbersOf = ({ trajectory, step }) => [trajectory + 1, step + 1];

function momentFrom([episode, frame], { trajectories }) {
  const [trajectory, step] = [Number(episode) - 1, Number(frame) - 1];
  const isStep = Number.isInteger(step) && step >= 0 && step < (trajectories[trajectory]?.steps ?? 0);
  return isStep ? { trajectory, step } : null;
}

function paintedAt(parts, manifest) {
  const painted = momentFrom(parts, manifest);
  return painted && { painted };
}

/** Layers of the network that have features. */
export const layersOf = ({ layers }) => layers.filter(({ kind, channels }) => kind === "layer" && channels > 0);

function hasFeature(manifest, slug, number) {
  const layer = layersOf(manifest).find((one) => one.slug === slug);
  return Boolean(layer) && Number.isInteger(number) && number >= 1 && number <= layer.channels;
}

/** The box between two points, which are shares of the observation. */
export function boxBetween(a, b, { height, width }) {
  const edges = (one, other, length) => {
    const low = Math.max(0, Math.min(length - 1, Math.floor(Math.min(one, other) * length)));
    return [low, Math.min(length, Math.max(low + 1, Math.ceil(Math.max(one, other) * length)))];
  };
  const [[left, right], [top, bottom]] = [edges(a.x, b.x, width), edges(a.y, b.y, height)];
  return [left, top, right, bottom];
}

/** What is asked of the network. @param {Edit} edit */
export function changeOf({ objects, boxes, factors, baseline, added, at, only }, manifest) {
  const features = layersOf(manifest)
    .filter(({ slug }) => only[slug] || factors[slug] || baseline[slug]?.length || added[slug])
    .map(({ key, slug }) => ({
      layer: key,
      factors: factors[slug] ?? {},
      baseline: baseline[slug] ?? [],
      added: added[slug] ?? {},
      ...(at[slug] && { positions: positionsOf(at[slug]) }),
      only: only[slug] ? [only[slug]] : [],
    }));
  return { objects, boxes: boxes.map((box) => without(box, "painted")), features };
}

/**
 * An edit in which a feature (from 1) of a layer is removed, too: set to the page's baseline, or to zero.
 *
 * @param {Edit} edit
 * @returns {Edit}
 */
export function withoutFeature(edit, slug, number, toZero) {
  const others = (edit.baseline[slug] ?? []).filter((other) => other !== number);
  const factors = without(edit.factors[slug] ?? {}, number);
  return {
    ...edit,
    factors: { ...edit.factors, [slug]: toZero ? { ...factors, [number]: 0 } : factors },
    baseline: { ...edit.baseline, [slug]: toZero ? others : [...others, number] },
  };
}

/** @param {number[]} place as in `Edit.at` */
function positionsOf(place) {
  const [top, left, bottom, right] = place;
  const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);
  return range(top, bottom).flatMap((row) => range(left, right).map((column) => [row, column]));
}
