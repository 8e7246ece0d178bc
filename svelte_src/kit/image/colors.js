// Colors of channels, graphs and actions.

/** Hues that stay apart for color-blind readers (Okabe and Ito 2008, and two more of the same kind). */
const SAFE = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#7a3fb5"];
/** The same, darker or lighter, for layers of more features. */
const SAFE_TOO = ["#855c00", "#1f6f9f", "#7fd9bb", "#9a9100", "#8fc7ef", "#7d3700", "#7d2f58", "#c3a1e6"];
export const SAFE_HUES = [...SAFE, ...SAFE_TOO];

/** The color of doing nothing, and colors of other actions, neighbors of which stay apart for color-blind readers. */
const IDLE = "#8a8f96";
const ACTIONS = [
  ...[SAFE_TOO[1], SAFE[0], SAFE_TOO[2], SAFE_TOO[6], SAFE[3], SAFE_TOO[7], SAFE_TOO[5], SAFE[1]],
  ...[SAFE[2], SAFE[6], SAFE_TOO[0], SAFE_TOO[4], SAFE[5], SAFE[4], SAFE_TOO[3], SAFE[7]],
];

/** Names that options use by default, in a tone that reads on the theme. */
const TONES = {
  light: { blue: "#2563c9", green: "#15803d", red: "#c2322d", orange: "#b45d09" },
  dark: { blue: "#7fb0ff", green: "#63d297", red: "#ff8f87", orange: "#ffb25e" },
};

/** Colors of saliency. */
const OUTPUTS = {
  standard: { policy: "#4444e6", value: "#f04444" },
  safe: { policy: "#0072b2", value: "#e69f00" },
};

/** Colors of the outputs as lines and bars, which read on each theme. */
const LINES = {
  light: { policy: "#3a3ad6", value: "#c9302c" },
  dark: { policy: "#9a9aff", value: "#ff8f87" },
  "safe light": { policy: "#0067a8", value: "#b26a00" },
  "safe dark": { policy: "#56b4e9", value: "#e69f00" },
};

/** What colors depend on: the theme, and the palette. */
export const toneOf = (theme, palette) => (palette === "safe" ? `safe ${theme}` : theme);

/** @param {string} tone "light" or "dark", or "safe light" or "safe dark" for color-blind readers */
export const outputColor = (output, tone) => LINES[tone][output === "policy" ? "policy" : "value"];

/** The color of an output of a saliency method: blue for the policy, red for the value or the largest action value. */
export const saliencyColor = (output, palette = "standard") => {
  const { policy, value } = OUTPUTS[palette] ?? OUTPUTS.standard;
  return output === "policy" ? policy : value;
};

/** Colors of actions: their own, or hues where those are grays; beyond 16 actions hues repeat. */
export function actionColors(actions) {
  const own = actions.map(({ color }) => color);
  const gray = own.every((color) => new Set(parseHex(color)).size === 1);
  if (!gray) return own;
  const others = actions.filter(({ label }) => label !== "no-op");
  return actions.map((action) => (action.label === "no-op" ? IDLE : ACTIONS[others.indexOf(action) % ACTIONS.length]));
}

/** Colors of what lowers an output, in signed maps. */
const LOWERS = {
  standard: { policy: "#bbbb19", value: "#0fbbbb" },
  safe: { policy: "#f0e442", value: "#cc79a7" },
};

export const loweringColor = (output, palette = "standard") => {
  const { policy, value } = LOWERS[palette] ?? LOWERS.standard;
  return output === "policy" ? policy : value;
};

/** @param {string} color "#rrggbb" or "#rgb" @returns {[red: number, green: number, blue: number]} */
export function parseHex(color) {
  const digits = color.replace("#", "");
  const full = digits.length === 3 ? [...digits].map((d) => d + d).join("") : digits;
  const level = (i) => parseInt(full.slice(i, i + 2), 16);
  return [level(0), level(2), level(4)];
}

/** A channel's colors: {color: to show it, hue: to weight it by, unit L2 norm}. */
export function channelColors(layer, palette) {
  if (layer.kind === "saliency") {
    return layer.outputs.map(({ id }) => {
      const color = saliencyColor(id, palette);
      return { color, hue: hueOf(color), negative: loweringColor(id, palette) };
    });
  }
  if (palette !== "safe" || layer.kind === "input") {
    return layer.colors.map((color, k) => ({ color, hue: layer.hues[k] }));
  }
  return layer.colors.map((_color, k) => {
    const color = SAFE_HUES[k % SAFE_HUES.length];
    return { color, hue: hueOf(color) };
  });
}

/** Channels' colors with others in their place, if there is one for each. */
export const withColors = (list, colors) =>
  colors?.length === list.length ? list.map((one, k) => ({ ...one, color: colors[k], hue: hueOf(colors[k]) })) : list;

/** A color as [red, green, blue] of unit L2 norm. */
export function hueOf(color) {
  const rgb = parseHex(color);
  const norm = Math.hypot(...rgb) || 1;
  return rgb.map((x) => x / norm);
}

export const themedColor = (name, theme) => TONES[theme][name] ?? name;

/** The color of an output's graph, from the options. */
export function graphColor(manifest, kind, theme) {
  const { graph_colors: colors = {} } = manifest.view ?? {};
  const keys = {
    value: "v",
    action: "action",
    question: "action",
    group: "action_group",
    greedy: "action",
    advantage: "advantage",
  };
  const defaults = {
    value: "green",
    action: "red",
    question: "red",
    group: "orange",
    greedy: "red",
    advantage: "blue",
  };
  return themedColor(colors[keys[kind]] ?? defaults[kind], theme);
}

/** The color of the chosen trajectory, from the options. */
export const trajectoryColor = (manifest, theme) => themedColor(manifest.view?.trajectory_color || "blue", theme);

/** Any CSS color as #rrggbb, as a canvas understands it; null where it does not. */
export function hexOf(
  color,
  context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d")),
) {
  const [black, white] = ["#000000", "#ffffff"].map((start) => {
    context.fillStyle = start;
    context.fillStyle = color;
    return String(context.fillStyle);
  });
  if (black !== white) return null; // what is no color leaves the one before
  if (black.startsWith("#")) return black;
  const parts = (black.match(/[\d.]+/g) ?? []).slice(0, 3);
  return `#${parts.map((part) => Math.round(Number(part)).toString(16).padStart(2, "0")).join("")}`;
}

/** Colors of numbers above and below zero, which color-blind readers tell apart, too. */
const SIGNS = {
  light: { positive: "#b8500a", negative: "#1f5fae" },
  dark: { positive: "#ffa04d", negative: "#6fb0ff" },
};

/** The color of a sign as CSS. */
export const signedCss = (value, theme) => SIGNS[theme][value < 0 ? "negative" : "positive"];

/** The color [red, green, blue] of a share of the largest magnitude, from -1 to 1: the surface's at 0. */
export function signedColor(share, theme) {
  const [ground, full] = [CANVAS[theme].surface, signedCss(share, theme)].map(parseHex);
  const part = Math.min(1, Math.abs(share));
  return ground.map((level, i) => Math.round(level + part * (full[i] - level)));
}

/** Black or white, whichever reads better on a color (WCAG relative luminance). */
export function textOn(color) {
  const [r, g, b] = parseHex(color).map((x) => {
    const s = x / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff";
}

/** Colors that are drawn on canvases, where CSS variables do not reach. */
export const CANVAS = {
  light: {
    surface: "#ffffff",
    line: "#8a8f96",
    zero: "#827f76",
    playhead: "#1c1f23",
    mark: "#2f5bb7",
    positive: "#157a41",
    negative: "#b3322c",
  },
  dark: {
    surface: "#1b1e22",
    line: "#7d838c",
    zero: "#737a83",
    playhead: "#ffffff",
    mark: "#8fb4ff",
    positive: "#6cd79b",
    negative: "#ff938b",
  },
};
