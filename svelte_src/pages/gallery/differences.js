// Two pages of one recording: which features match, their colors, and how their numbers differ.
import { parseHex, SAFE_HUES } from "../../kit/image/colors.js";

/** @typedef {import("../../kit/shell/embedding.js").Report} Report */

/** A page's title, with its directory where another page has the same one. */
export const distinctTitle = (pages, { title, folder }) =>
  pages.filter((page) => page.title === title).length > 1 ? `${title} (${folder})` : title;

/** Pairs of a layer's features that match: indices on the left and the right page, and their cosine similarity. */
export const matchedPairs = (matches, layer) =>
  (matches?.[layer] ?? []).flatMap((match, left) =>
    match ? [{ left, right: match.number - 1, similarity: match.similarity }] : [],
  );

/** Colors for the right page: those of matching features on the left, and others, unlike any of the left, for the rest. */
export function rightColors(left, right, matches) {
  return Object.fromEntries(
    Object.keys(matches ?? {})
      .filter((layer) => left[layer] && right[layer])
      .map((layer) => {
        const pairs = matchedPairs(matches, layer);
        const others = unlike(left[layer], right[layer].length);
        const partner = (k) => pairs.find((pair) => pair.right === k);
        return [layer, right[layer].map((_, k) => left[layer][partner(k)?.left] ?? others.shift())];
      }),
  );
}

const CANDIDATES = [
  ...SAFE_HUES,
  "#ff0000",
  "#ff8000",
  "#80ff00",
  "#00ff80",
  "#00ffff",
  "#0080ff",
  "#8000ff",
  "#ff00ff",
];

/** So many colors, each as far as possible from those that are used and from one another. */
function unlike(used, count) {
  const taken = used.map(parseHex);
  const distance = (color) => Math.min(...taken.map((other) => Math.hypot(...other.map((x, i) => x - color[i]))));
  return Array.from({ length: count }, () => {
    const best = CANDIDATES.reduce((a, b) => (distance(parseHex(b)) > distance(parseHex(a)) ? b : a));
    taken.push(parseHex(best));
    return best;
  });
}

/** Actions whose probabilities differ most, at most so many. */
const ACTIONS = 3;

/**
 * What differs at the step, in numbers: the right page less the left one.
 *
 * @param {Report} left
 * @param {Report} right
 * @param {Record<string, ({number: number, similarity: number} | null)[]>} [matches] by layer, of the left page's features
 */
export function differences(left, right, matches) {
  const same = left.output === right.output;
  const between = (a, b) => (Number.isFinite(a) && Number.isFinite(b) ? [a, b, b - a] : null);
  const tested = left.lostFrame === right.lostFrame;
  const features = same && left.layer === right.layer ? matchedPairs(matches, left.layer) : [];
  return {
    /** whether both show the same output, and the same layer */
    same: { output: same, layer: left.layer === right.layer },
    output: same ? between(left.value, right.value) : null,
    policy: policyDifference(left, right),
    features: features.map((pair) => ({
      ...pair,
      attribution: between(left.attribution?.[pair.left], right.attribution?.[pair.right]),
      lost: tested ? between(left.lost?.[pair.left], right.lost?.[pair.right]) : null,
    })),
  };
}

/** The total variation of two policies, and the actions whose probabilities differ most; null without both. */
function policyDifference({ policy: p, actions }, { policy: q, actions: others }) {
  if (!p || !q || String(actions) !== String(others) || p.length !== q.length) return null;
  const all = p.map((share, k) => ({ label: actions[k], shares: [share, q[k], q[k] - share] }));
  const size = ({ shares: [, , difference] }) => Math.abs(difference);
  return {
    variation: all.reduce((sum, one) => sum + size(one), 0) / 2,
    actions: [...all].sort((a, b) => size(b) - size(a)).slice(0, ACTIONS),
  };
}
