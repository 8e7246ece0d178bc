// Notes on frames and features: plain values, exported and imported as JSON.

const FORMAT = "rl-clarity-notes";

/** @typedef {{id: string, text: string, query: string, place: string}} Note */

export const addNote = (notes, note) => [...notes, note];
export const removeNote = (notes, id) => notes.filter((note) => note.id !== id);
export const editNote = (notes, id, text) => notes.map((note) => (note.id === id ? { ...note, text } : note));

/** @returns {string} */
export function exportNotes(manifest, notes) {
  const { id, title } = manifest;
  return JSON.stringify({ format: FORMAT, version: 1, page: { id, title }, notes }, null, 2) + "\n";
}

/** Add the notes of a file to those that are there; the same id replaces. Throws an Error for the reader. */
export function importNotes(notes, text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON.");
  }
  if (file?.format !== FORMAT || !Array.isArray(file.notes))
    throw new Error("This file does not hold notes of such a page.");
  const read = file.notes
    .filter((note) => typeof note?.text === "string" && typeof note.query === "string" && /^\?/.test(note.query))
    .map(({ id, text: words, query, place }) => ({ id: String(id), text: words, query, place: String(place ?? "") }));
  const ids = new Set(read.map(({ id }) => id));
  return [...notes.filter(({ id }) => !ids.has(id)), ...read];
}
