// What a page was made with, as rows to read: dictionaries come as JSON, their entries become rows of their own.

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
