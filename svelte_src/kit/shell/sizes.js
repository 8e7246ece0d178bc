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

/** The width of an observation: by default less in low windows, so that film, images and bars fit; more beside a single map. */
export const imageWidth = (view, maps) =>
  chosenLength(view, "video_width") ?? `clamp(8rem, ${maps > 1 ? 32 : 42}vh, 22rem)`;

/** A height as CSS: a percentage is one of the window, as what stands on the page has no height to be a part of. */
export const height = (view, key) => length(view, key).replace("%", "vh");

/** Room for two features of the chosen width beside each other, and a scroll bar; null: the layout decides. */
export function legendWidth(view) {
  const chosen = chosenLength(view, "legend_item_width") || chosenLength(view, "legend_item_height");
  return chosen && `calc(2 * ${length(view, "legend_item_width")} + 32px)`;
}

/** What stands beside a track: its label, the gap, and the panel's padding and border. */
const BESIDE_TRACK = "162px";
/** The panel's padding and border alone, and with the slider's margins. */
const BESIDE_PANEL = "34px";
const BESIDE_SLIDER = "58px";

/** How wide the middle of the page must be for everything that was chosen; null: the layout decides. */
export function middleWidth(view) {
  const wanted = [
    ["scrubber_width", BESIDE_TRACK],
    ["policy_display_width", BESIDE_TRACK],
    ["navigator_width", BESIDE_SLIDER],
  ];
  const chosen = wanted.filter(([key]) => chosenLength(view, key));
  const widths = chosen.map(([key, beside]) => `${chosenLength(view, key)} + ${beside}`);
  const video = chosenLength(view, "video_width");
  // Observation, positive, negative; beside the last two, features alone.
  if (video) widths.push(`(${video} / 3.1 + 1px) * 11.3 + 24px + ${BESIDE_PANEL}`);
  return widths.length ? `max(${widths.join(", ")})` : null;
}

/** Width over height of two lengths of one unit; the fallback where they are equal or cannot be compared. */
export function ratio(width, height, fallback) {
  const unit = (text) => text.replace(/^[\d.]+/, "");
  const quotient = parseFloat(width) / parseFloat(height);
  return unit(width) === unit(height) && quotient > 0 && quotient !== 1 ? quotient : fallback;
}

/**
 * Call `report(node)` now and whenever the element's size changes. Unlike Svelte's `bind:clientWidth`, which adds a frame to
 * the element, it works in a page that is itself in a frame: its content security policy allows no frames.
 */
export function measured(node, report) {
  const observer = new ResizeObserver(() => report(node));
  observer.observe(node);
  report(node);
  return { destroy: () => observer.disconnect() };
}
