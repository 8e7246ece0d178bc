// Numbers as text.

const MINUS = "\u2212";

/** Formatters are memoized: creating one is slow, and dozens of numbers change with every frame. */
const figuresFormat = memoizedFormat((figures) => ({
  maximumSignificantDigits: figures,
  minimumSignificantDigits: Math.min(figures, 3),
  useGrouping: false,
}));
const percentFormat = memoizedFormat((digits) => ({ maximumFractionDigits: digits }));

function memoizedFormat(options) {
  const made = new Map();
  return (key, value) => {
    if (!made.has(key)) made.set(key, new Intl.NumberFormat("en", options(key)));
    return made.get(key).format(value);
  };
}

/** A number with a few significant figures, a true minus sign, and an exponent only where necessary. */
export function formatNumber(value, figures = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
  if (!Number.isFinite(value)) return value > 0 ? "\u221e" : `${MINUS}\u221e`;
  const size = Math.abs(value);
  let text;
  if (size === 0) text = "0";
  else if (size >= 1e5 || size < 1e-4) text = size.toExponential(Math.max(0, figures - 1));
  else text = figuresFormat(figures, size);
  return value < 0 ? MINUS + text : text;
}

/** Numbers that add up, whose range is known: as many decimals for each as show a thousandth of the range. */
export function formatPart(value, range) {
  const decimals = Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(range || 1))));
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? `${MINUS}${text}` : text;
}

export function formatPercent(fraction) {
  const size = Math.abs(fraction);
  const text = `${percentFormat(size < 0.1 ? 1 : 0, 100 * size)}\u202f%`;
  return fraction < 0 ? MINUS + text : text;
}

/** What the channels of a layer are called. */
export const channelWord = (layer) => (layer.kind === "input" ? "Channel" : "Feature");

/** "layer 2b", or "saliency by perturbation". */
export const layerName = ({ kind, name }) => `${kind === "saliency" ? "saliency by" : "layer"} ${name}`;

/** What an output is called. */
export function outputName({ kind, label }) {
  if (kind === "action") return label.startsWith("action ") ? label : `action ${label}`;
  return kind === "group" ? `actions with ${label}` : label;
}

/** A text as a part of a file's name: "relu 1 (8 channels)" is "relu-1-8-channels". */
export const fileName = (text) => text.match(/[\p{L}\p{N}_.]+/gu)?.join("-") ?? "";

/** "frame 12 of trajectory 3", counted from 1. */
export const frameName = ({ trajectory, frame }) => `trajectory ${trajectory + 1}, frame ${frame + 1}`;

/** Ascending numbers as text: "1, 3 to 8". */
export function numberRanges(list) {
  const runs = [];
  for (const number of list) {
    const run = runs.at(-1);
    if (run && run[1] === number - 1) run[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`)).join(", ");
}

/** "20 M steps" */
export function stepsText(step, unit = "steps") {
  if (step === null || step === undefined) return "";
  const [size, suffix] = step >= 1e6 ? [1e6, " M"] : step >= 1e4 ? [1e3, " k"] : [1, ""];
  return `${Number((step / size).toPrecision(4))}${suffix} ${unit}`;
}

// Comma-separated values (RFC 4180).

const quoted = (cell) => {
  const text = cell === null || cell === undefined ? "" : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** @param {any[][]} rows the first one holds the names of the columns */
export const toCsv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";

// Provenance as rows: dictionaries come as JSON, and their entries become rows.

const DEEPEST = 3;

/**
 * @param {[string, string][]} items names and values
 * @returns {{name: string, value: string, depth: number}[]} a dictionary's name stands alone, above its entries
 */
export function factRows(items) {
  return items.flatMap(([name, text]) => rowsOf(name, parsed(text), 0));
}

/** A dictionary or a list that was written as JSON; all else is text. */
function parsed(text) {
  if (!/^[{[]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function rowsOf(name, value, depth) {
  if (!isDictionary(value) || depth === DEEPEST) return [{ name, value: inWords(value), depth }];
  const entries = Object.entries(value).flatMap(([key, inner]) => rowsOf(key, inner, depth + 1));
  return [{ name, value: entries.length ? "" : "none", depth }, ...entries];
}

const isDictionary = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function inWords(value) {
  if (value === null) return "none";
  if (Array.isArray(value) && !value.some((entry) => entry && typeof entry === "object")) {
    return value.map(inWords).join(", ") || "none";
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
