// The selection in the page's address: `?episode=exp1~50&step=41&range=10-60`; steps are counted from 1, defaults left out.
import { KINDS, searchFromText, searchToText } from "../../data/find.js";
import { searchable } from "./find.js";
import { episodeName } from "./runs.js";
import { changed, DEFAULT_TRACKS, initialSelection } from "./selection.js";

/** A change of these is a place to come back to with the browser's back button. */
export const PLACES = ["chosen"];
const TEXTS = ["sync", "shows", "method", "overlay", "scale"];
const NUMBERS = ["opacity", "jump", "visible"];

/** @returns {string} the query, with its question mark */
export function toQuery({ table }, selection, kept = {}) {
  const defaults = initialSelection(table);
  const query = new URLSearchParams(kept);
  for (const key of selection.chosen) query.append("episode", key);
  query.set("step", selection.step + 1);
  for (const key of [...TEXTS, ...NUMBERS]) if (selection[key] !== defaults[key]) query.set(key, selection[key]);
  // Other readers may prefer another palette, so only the standard one is left out.
  if (selection.palette !== "standard" || defaults.palette !== "standard") query.set("palette", selection.palette);
  if (selection.range) query.set("range", selection.range.map((step) => step + 1).join("-"));
  if (selection.find) query.set("find", searchToText(searchable(table), selection.find));
  if (String(selection.tracks) !== String(DEFAULT_TRACKS)) query.set("tracks", selection.tracks.join(","));
  return `?${query}`;
}

/** @returns {import("./selection.js").Selection} what a query says, and defaults for the rest and for what is wrong */
export function fromQuery({ table }, text) {
  const query = new URLSearchParams(text);
  const initial = initialSelection(table);
  const number = (name) => (/^-?\d*\.?\d+$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  const patch = {};
  if (query.has("episode")) patch.chosen = query.getAll("episode");
  if (number("step") !== null) patch.step = number("step") - 1;
  for (const name of [...TEXTS, "palette"]) if (query.has(name)) patch[name] = query.get(name);
  for (const name of NUMBERS) if (number(name) !== null) patch[name] = number(name);
  const range = /^(\d+)-(\d+)$/.exec(query.get("range") ?? "");
  patch.range = range ? [range[1] - 1, range[2] - 1] : null;
  if (query.has("find")) patch.find = searchFromText(searchable(table), query.get("find"), KINDS.recordings);
  patch.tracks = query.has("tracks") ? query.get("tracks").split(",").filter(Boolean) : initial.tracks;
  return changed(table, initial, patch);
}

/** Everything that an address says is a place. */
export const placeFromQuery = fromQuery;

/** What a note can be on: the moment that is shown. */
export function notePlaces(manifest, selection) {
  const names = selection.chosen
    .map((key) => manifest.table.byKey.get(key))
    .filter(Boolean)
    .map(episodeName);
  return [{ place: `${names.join("; ")}, step ${selection.step + 1}`, query: toQuery(manifest, selection) }];
}
