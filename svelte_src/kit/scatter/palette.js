// Colors of points: a perceptual scale for numbers, hues that stay apart for categories. Readers who are color-blind can
// tell both apart.
import { parseHex, SAFE_HUES } from "../image/colors.js";

/** Viridis (van der Walt and Smith 2015), whose lightness rises evenly. */
const SCALE = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b"].map(
  parseHex,
);
/** The part of the scale that stands out from the surface. */
const PART = { light: [0, 0.9], dark: [0.2, 1] };
const SHARES = [0.01, 0.99];

/** A color as a pixel of an image: the bytes red, green, blue and opacity, in this order. */
export const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** The color [red, green, blue] of a share of the scale, from 0 to 1. @returns {[number, number, number]} */
export function scaleColor(share, theme) {
  const [from, to] = PART[theme];
  const at = (from + (to - from) * Math.max(0, Math.min(1, share))) * (SCALE.length - 1);
  const below = Math.min(Math.floor(at), SCALE.length - 2);
  const mixed = (i) => Math.round(SCALE[below][i] + (at - below) * (SCALE[below + 1][i] - SCALE[below][i]));
  return [mixed(0), mixed(1), mixed(2)];
}

/** Of what is in no category, whose number is -1. */
const NONE = "#9a9a9a";

/** The color of a category, as hex; hues repeat. */
export const categoryColor = (value, hues = SAFE_HUES) => (value < 0 ? NONE : hues[value % hues.length]);

/** Numbers that have the first and the last color: without a hundredth at each end, unless all others are equal. */
export function colorLimits(values) {
  const sorted = Float64Array.from(values.filter(Number.isFinite)).sort();
  if (!sorted.length) return [0, 1];
  const ends = SHARES.map((share) => sorted[Math.round(share * (sorted.length - 1))]);
  return ends[0] < ends[1] ? ends : [sorted[0], sorted[sorted.length - 1]];
}

/** Pixels (n) for values (n) of a color {kind: "number" | "category"}; `hues`: of the categories. */
export function pointColors(values, kind, theme, hues = SAFE_HUES) {
  if (kind === "category") {
    const pixels = hues.map((hue) => packed(parseHex(hue)));
    const none = packed(parseHex(NONE));
    return Uint32Array.from(values, (value) => (value < 0 ? none : pixels[value % pixels.length]));
  }
  const [low, high] = colorLimits(values);
  const steps = Uint32Array.from({ length: 256 }, (_, i) => packed(scaleColor(i / 255, theme)));
  const width = high - low || 1;
  return Uint32Array.from(values, (value) => {
    const share = Math.max(0, Math.min(1, (value - low) / width));
    return steps[Math.round(255 * (Number.isFinite(share) ? share : 0))];
  });
}
