// The table of episodes: its columns, and filters of its rows.

const two = (number) => String(number).padStart(2, "0");

/** "2026-11-22 09:05", in the reader's time. @param {number | null} seconds since 1970 */
export function timeText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const date = new Date(1000 * seconds);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** "live, explained, damaged": what there is to say of an episode. */
export const stateText = ({ end, explained, error }) =>
  [error ? "damaged" : end, explained && !error && "explained"].filter(Boolean).join(", ");

/**
 * `text`: what a filter sees; the number itself for columns of numbers.
 *
 * @typedef {{key: string, label: string, title?: string, number?: boolean, text?: (row: any) => string}} Column
 * @type {Column[]}
 */
export const COLUMNS = [
  { key: "name", label: "Run", text: ({ name }) => name },
  { key: "episode", label: "Episode", number: true },
  { key: "step", label: "Step", title: "Training step", number: true },
  { key: "return", label: "Return", number: true },
  { key: "length", label: "Length", number: true },
  { key: "time", label: "When", text: ({ time }) => timeText(time) },
  { key: "state", label: "State", text: stateText },
];

/** @param {Column} column @param {any} row */
export const textOf = ({ key, text }, row) => (text ? text(row) : String(row[key] ?? ""));

const COMPARISON = /^(<=|>=|<|>|=)\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)$/i;
const BETWEEN = /^(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)$/;
const COMPARE = {
  "<": (a, b) => a < b,
  ">": (a, b) => a > b,
  "<=": (a, b) => a <= b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
};

/**
 * A filter of one column, or of all: a regular expression, which ignores case; for numbers also "> 10" or "5..8".
 *
 * @param {object | null} column null: any column
 * @param {string} text
 * @returns {(row: object) => boolean} throws a SyntaxError for an expression that is not complete
 */
function filterOf(column, text) {
  const wanted = text.trim();
  if (column?.number) {
    const isNumber = (value) => typeof value === "number";
    const [, compare, limit] = COMPARISON.exec(wanted) ?? [];
    if (compare) return (row) => isNumber(row[column.key]) && COMPARE[compare](row[column.key], Number(limit));
    const [, low, high] = BETWEEN.exec(wanted) ?? [];
    if (low) return (row) => isNumber(row[column.key]) && row[column.key] >= low && row[column.key] <= high;
  }
  const expression = new RegExp(wanted, "i");
  const columns = column ? [column] : COLUMNS;
  return (row) => columns.some((one) => expression.test(textOf(one, row)));
}

/**
 * @param {Object<string, string>} filters text by column; that of all columns is named "any"
 * @returns {{rows: object[], wrong: string | null}} rows that pass all filters, and the name of a filter that is not an expression
 */
export function filteredRows(rows, filters) {
  let wrong = null;
  const tests = Object.entries(filters)
    .filter(([, text]) => text.trim())
    .map(([key, text]) => {
      try {
        return filterOf(COLUMNS.find((column) => column.key === key) ?? null, text);
      } catch {
        wrong = key;
        return () => true;
      }
    });
  return { rows: tests.length ? rows.filter((row) => tests.every((test) => test(row))) : rows, wrong };
}

/** The rows of a long table that are in view, and those just outside. @returns {{first: number, last: number}} `last` not included */
export function rowsInView(count, { top, height, rowHeight, more = 6 }) {
  const first = Math.max(0, Math.min(count, Math.floor(top / rowHeight)) - more);
  return { first, last: Math.min(count, Math.ceil((top + height) / rowHeight) + more) };
}
