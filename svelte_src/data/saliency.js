// Saliency maps of a page (docs/page-format.md, "Section saliency"): which one belongs to a frame, and its values.

/**
 * @typedef {object} Method an entry of `methods`
 * @typedef {{data: Float32Array, height: number, width: number, scale: number, total: number, step: number}} SaliencyMap values of
 *   one output at one step; `scale`: its largest magnitude
 */

/** The segment of a trajectory in which the map is that a frame shows: that of the frame, or the last one before it. */
export const segmentOfMap = (frame, every, segment) => Math.floor((frame - (frame % every)) / segment);

/** The index of the last of a chunk's steps that is not after a frame; -1 if there is none. */
export function mapIndex({ arrays }, frame) {
  const steps = arrays.steps.data;
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= frame) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** One output's map; null where there is none, or where it is constant. @returns {SaliencyMap | null} */
export function saliencyMap({ arrays }, output, index) {
  const codes = arrays[`codes.${output}`];
  const scale = arrays[`scales.${output}`]?.data[index];
  if (!codes || !scale) return null;
  const [, height, width] = codes.shape;
  const size = height * width;
  const unit = scale / (codes.data instanceof Int8Array ? 127 : 255);
  return {
    data: Float32Array.from(codes.data.subarray(index * size, (index + 1) * size), (code) => code * unit),
    height,
    width,
    scale,
    total: arrays[`totals.${output}`].data[index],
    step: arrays.steps.data[index],
  };
}

/** What has full opacity: the frame's own largest value, the trajectory's, or the 99th percentile of all ("all"). */
export function saliencyScale({ scales, percentile }, output, trajectory, scale, map) {
  if (scale === "frame") return map?.scale || 1;
  return (scale === "all" ? percentile[output] : scales[output]?.[trajectory]) || 1;
}

/**
 * The chunks of an episode's segments as one (docs/page-format.md, "Section saliency").
 *
 * @param {{arrays: Object<string, {data: ArrayLike<number>, shape: number[]}>}[]} chunks
 * @returns {{arrays: object} | null}
 */
export function joinMaps(chunks) {
  if (chunks.length < 2) return chunks[0] ?? null;
  const keys = Object.keys(chunks[0].arrays);
  return { arrays: Object.fromEntries(keys.map((key) => [key, joined(chunks.map(({ arrays }) => arrays[key]))])) };
}

function joined(parts) {
  const data = new parts[0].data.constructor(parts.reduce((length, part) => length + part.data.length, 0));
  let at = 0;
  for (const part of parts) {
    data.set(part.data, at);
    at += part.data.length;
  }
  const [, ...rest] = parts[0].shape;
  return { data, shape: [parts.reduce((count, { shape }) => count + shape[0], 0), ...rest] };
}

/** The outputs that maps are of. */
export const mapOutputs = ({ arrays }) =>
  Object.keys(arrays)
    .filter((key) => key.startsWith("codes."))
    .map((key) => key.slice("codes.".length));

/** The output of the maps that stands for the policy or the value: agents with action values have the largest one. */
export const storedOutput = ({ arrays }, output) => (output === "policy" || arrays["codes.value"] ? output : "greedy");

/**
 * The methods of saliency maps that any of several agents has, each once.
 *
 * @param {{saliency: {methods: object[]} | null}[]} owners with data of sections `saliency`
 */
export function methodsOf(owners) {
  const all = owners.flatMap(({ saliency }) => saliency?.methods ?? []);
  return all.filter(({ name }, i) => all.findIndex((other) => other.name === name) === i);
}

/** The maps of an agent by one method, or null. */
export const methodNamed = ({ saliency }, name) => saliency?.methods.find((method) => method.name === name) ?? null;
