// Notes on frames and features: plain values, exported and imported as JSON.

const FORMAT = "rl-clarity-notes";

/** Characters of a file that are read at most. */
export const LONGEST = 5e6;

/** @typedef {{id: string, text: string, query: string, place: string}} Note */

export const addNote = (notes, note) => [...notes, note];
export const removeNote = (notes, id) => notes.filter((note) => note.id !== id);
export const editNote = (notes, id, text) => notes.map((note) => (note.id === id ? { ...note, text } : note));

/** Notes, and the names that the reader gave to features, as a file. @returns {string} */
export function exportNotes(manifest, notes, names = {}) {
  const { id, title } = manifest;
  return (
    JSON.stringify({ format: FORMAT, version: 1, page: { id, title }, notes, feature_names: names }, null, 2) + "\n"
  );
}

/**
 * Add the notes of a file to those that are there; the same id replaces. Throws an Error for the reader.
 *
 * @returns {{notes: Note[], names: any}} `names`: what the file has as names of features
 */
export function importNotes(notes, text) {
  if (text.length > LONGEST) throw new Error("This file is too large to hold notes.");
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON.");
  }
  if (file?.format !== FORMAT || !Array.isArray(file.notes))
    throw new Error("This file does not contain notes from an rl-clarity page.");
  const read = cleanNotes(file.notes);
  const ids = new Set(read.map(({ id }) => id));
  return { notes: [...notes.filter(({ id }) => !ids.has(id)), ...read], names: file.feature_names };
}

/** The notes in a list that may hold anything, each with an id of its own. @returns {Note[]} */
export function cleanNotes(list) {
  const notes = new Map();
  for (const note of Array.isArray(list) ? list : []) {
    if (typeof note?.text !== "string" || typeof note.query !== "string" || !note.query.startsWith("?")) continue;
    const id = typeof note.id === "string" ? note.id : `note-${notes.size + 1}`;
    notes.set(id, { id, text: note.text, query: note.query, place: typeof note.place === "string" ? note.place : "" });
  }
  return [...notes.values()];
}

// The reader's settings, stored by the browser.

const CHOICES = { theme: ["system", "light", "dark"], palette: ["standard", "safe"] };

export const THEMES = CHOICES.theme;

export const DEFAULT_SETTINGS = {
  theme: "system",
  palette: "standard",
  keys: true,
  toured: false,
  totals: true,
  boxFeatures: false,
  band: false,
  stack: false,
  separate: false,
};

/** Valid settings from what the browser stored; unknown values and other types become the default. @returns {typeof DEFAULT_SETTINGS} */
export function cleanSettings(kept) {
  const fits = (key) => (key in CHOICES ? CHOICES[key].includes(kept[key]) : typeof kept[key] === "boolean");
  const keys = Object.keys(DEFAULT_SETTINGS);
  return /** @type {typeof DEFAULT_SETTINGS} */ (
    Object.fromEntries(keys.map((key) => [key, kept && fits(key) ? kept[key] : DEFAULT_SETTINGS[key]]))
  );
}
