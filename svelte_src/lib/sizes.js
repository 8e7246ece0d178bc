// Sizes from the options. Their defaults are the original page's; there this page's own layout holds.

export const DEFAULT_SIZES = {
  video_height: "16em",
  video_width: "16em",
  policy_display_height: "2em",
  policy_display_width: "40em",
  navigator_width: "24em",
  scrubber_height: "4em",
  scrubber_width: "48em",
  legend_item_height: "6em",
  legend_item_width: "6em",
  feature_viewer_height: "40em",
  feature_viewer_width: "40em",
};

const LENGTH = /^\d*\.?\d+(em|rem|px|%|vw|vh|ch)$/;

/** An option's length as CSS, in units of the document's font; the default where there is none. */
export function length(view, key) {
  const value = String(view?.[key] ?? "");
  return (LENGTH.test(value) ? value : DEFAULT_SIZES[key]).replace(/(?<=\d)em$/, "rem");
}

/** The same, but null where the option has its default: then the layout decides. */
export function chosenLength(view, key) {
  const value = length(view, key);
  return value === length({}, key) ? null : value;
}

/** Width over height of two lengths of one unit; the fallback where they are equal or cannot be compared. */
export function ratio(width, height, fallback) {
  const unit = (text) => text.replace(/^[\d.]+/, "");
  const quotient = parseFloat(width) / parseFloat(height);
  return unit(width) === unit(height) && quotient > 0 && quotient !== 1 ? quotient : fallback;
}
