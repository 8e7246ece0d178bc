// Comma-separated values (RFC 4180).

const quoted = (cell) => {
  const text = cell === null || cell === undefined ? "" : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** @param {any[][]} rows the first one holds the names of the columns */
export const toCsv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
