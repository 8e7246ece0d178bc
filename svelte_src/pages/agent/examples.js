// Examples of a feature: which there are, what of the observation each shows, and where its peak is.

/** Kinds of examples, in the order of the tabs; `of: "output"` are frames of trajectories, the others extra observations. */
export const KINDS = [
  { id: "excites", label: "Excites most", text: "Observations with the strongest activations." },
  { id: "raises", label: "Raises most", of: "output", text: "Frames in which it raises the output most." },
  { id: "lowers", label: "Lowers most", of: "output", text: "Frames in which it lowers the output most." },
  { id: "middle", label: "Middle", text: "Observations around the median of those in which it is active." },
  { id: "lowest", label: "Lowest", text: "Observations with the weakest activations: counter-examples." },
  { id: "place", label: "By place", text: "For each position, the patch that activates it most strongly there." },
];

/** The kinds that a chunk of examples has. */
export const kindsIn = (arrays, output) =>
  KINDS.filter(({ id, of }) => (id === "place" ? true : Boolean(arrays[of ? `${id}.${output}` : id])));

/**
 * Examples of a feature.
 *
 * @returns {{cell?: number, trajectory?: number, frame?: number, row: number, column: number, strength: number}[]}
 *   `cell` of the atlas, or a trajectory's frame; the layer's position of the peak; activation or net attribution
 */
export function examplesOf(arrays, { id, of }, output, channel, layer) {
  const suffix = of ? `.${output}` : "";
  const places = arrays[`${id}${suffix}`];
  const strengths = arrays[`${id}_strength${suffix}`];
  if (!places) return [];
  const [, count, size] = places.shape;
  const examples = Array.from({ length: count }, (_, i) => {
    const at = channel * count + i;
    const place = Array.from(places.data.subarray(at * size, (at + 1) * size));
    const position = place.pop();
    const origin = of ? { trajectory: place[0], frame: place[1] } : { cell: place[0] };
    const [row, column] = [Math.floor(position / layer.width), position % layer.width];
    return { ...origin, row, column, strength: strengths.data[at] };
  });
  return examples.filter(({ cell, trajectory }) => (cell ?? trajectory) >= 0);
}

/** How many receptive fields a crop is wide. */
const AROUND = 3;
/** What pages without a receptive field show: positions of the layer. */
const POSITIONS = 4;

/** @typedef {{x: number, y: number, width: number, height: number}} Rectangle */

/**
 * What an example shows, in pixels of an image of the given size: the receptive field of the peak, and the part around it.
 *
 * @param {{height: number, width: number, receptive_field?: object}} layer
 * @param {{height: number, width: number}} observation as the network sees it
 * @param {{height: number, width: number}} image that is drawn: the observation, or a larger frame of the same view
 * @returns {{box: Rectangle, crop: Rectangle}} both inside the image
 */
export function cropOf(layer, observation, image, { row, column }) {
  const field = layer.receptive_field;
  const axes = [
    ["height", row],
    ["width", column],
  ].map(([axis, index]) => {
    const size = observation[axis];
    const unit = size / layer[axis];
    const extent = field?.[`effective_${axis}`] || field?.[axis] || POSITIONS * unit;
    const center = (index + 0.5) * unit;
    const length = Math.min(size, AROUND * extent);
    const start = Math.max(0, Math.min(size - length, center - length / 2));
    const [low, high] = [Math.max(0, center - extent / 2), Math.min(size, center + extent / 2)];
    const scale = image[axis] / size;
    return { start: start * scale, length: length * scale, low: low * scale, high: high * scale };
  });
  const [y, x] = axes;
  return {
    box: { x: x.low, y: y.low, width: x.high - x.low, height: y.high - y.low },
    crop: { x: x.start, y: y.start, width: x.length, height: y.length },
  };
}

/** Names of twins, and other features that overlap, strongest first. */
export function overlaps(arrays, channel, least = 0.25) {
  if (!arrays?.overlap) return [];
  const { data, shape } = arrays.overlap;
  const [count] = shape;
  return Array.from({ length: count }, (_, k) => ({
    channel: k,
    share: data[channel * count + k],
    back: data[k * count + channel],
  }))
    .filter(({ channel: k, share }) => k !== channel && share >= least)
    .sort((a, b) => b.share - a.share);
}
