// Numbers as text.

const MINUS = "\u2212";

/** A number with a few significant figures, a true minus sign, and no exponent where it can be helped. */
export function formatNumber(value, figures = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
  if (!Number.isFinite(value)) return value > 0 ? "\u221e" : `${MINUS}\u221e`;
  const size = Math.abs(value);
  let text;
  if (size === 0) text = "0";
  else if (size >= 1e5 || size < 1e-4) text = size.toExponential(Math.max(0, figures - 1));
  else
    text = size.toLocaleString("en", {
      maximumSignificantDigits: figures,
      minimumSignificantDigits: Math.min(figures, 3),
      useGrouping: false,
    });
  return value < 0 ? MINUS + text : text;
}

export const formatPercent = (fraction) =>
  `${(100 * fraction).toLocaleString("en", { maximumFractionDigits: fraction < 0.1 ? 1 : 0 })}\u2009%`;

/** What the channels of a layer are called. */
export const channelWord = (layer) => (layer.kind === "input" ? "Channel" : "Feature");

/** What an output is called. */
export function outputName({ kind, label }) {
  if (kind === "action") return `action ${label}`;
  return kind === "group" ? `actions with ${label}` : label;
}

/** "frame 12 of trajectory 3", counted from 1. */
export const frameName = ({ trajectory, frame }) => `trajectory ${trajectory + 1}, frame ${frame + 1}`;
