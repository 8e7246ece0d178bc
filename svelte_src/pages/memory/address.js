// The selection in the page's address: `?episode=2&step=41&target=value`, counted from 1, defaults left out.
import { namesFromTexts, namesToTexts } from "../../data/names.js";
import { changed, initialSelection } from "./selection.js";
import { holds, stretchAt } from "./stretches.js";

const stretchesOf = ({ memory }) => memory.stretches?.stretches ?? [];

/** A change of these is a place to come back to with the browser's back button. */
export const PLACES = ["trajectory", "tab"];
const TEXTS = ["choice", "end", "when", "search", "target", "path", "scale", "band", "tab"];
const NUMBERS = ["opacity", "visible"];
/** Numbers that are counted from 1 in the address: its key, and the selection's. */
const INDICES = [["behaviour", "behaviour"]];

/** @returns {string} the query, with its question mark */
export function toQuery(manifest, selection, kept = {}) {
  const defaults = initialSelection(manifest);
  const query = new URLSearchParams(kept);
  query.set("episode", selection.trajectory + 1);
  query.set("step", selection.frame + 1);
  const stretch = stretchesOf(manifest)[selection.stretch];
  // Of several stretches that hold the step, another one than the address alone would lead to.
  if (stretch && stretchAt(stretchesOf(manifest), selection.trajectory, selection.frame) !== selection.stretch)
    query.set("explained", stretch.frame + 1);
  const differs = (key) => String(selection[key]) !== String(defaults[key]);
  if (differs("components")) query.set("components", selection.components.map((k) => k + 1).join("."));
  for (const [name, key] of INDICES) if (differs(key)) query.set(name, selection[key] + 1);
  for (const key of [...TEXTS, ...NUMBERS]) if (differs(key)) query.set(key, selection[key]);
  // Other readers may prefer another palette, so only the standard one is left out.
  if (selection.palette !== "standard" || defaults.palette !== "standard") query.set("palette", selection.palette);
  for (const text of namesToTexts(manifest.named, selection.names)) query.append("name", text);
  return `?${query}`;
}

/** @returns {import("./selection.js").Selection} what a query says, and defaults for the rest and for what is wrong */
export function fromQuery(manifest, text) {
  const query = new URLSearchParams(text);
  const number = (name) => (/^-?\d*\.?\d+$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  const patch = {};
  for (const [name, key] of [["episode", "trajectory"], ["step", "frame"], ...INDICES])
    if (number(name) !== null) patch[key] = number(name) - 1;
  const components = query.get("components");
  if (components) patch.components = components.split(".").map((k) => Number(k) - 1);
  for (const name of [...TEXTS, "palette"]) if (query.has(name)) patch[name] = query.get(name);
  for (const name of NUMBERS) if (number(name) !== null) patch[name] = number(name);
  patch.names = namesFromTexts(manifest.named, query.getAll("name"));
  const start = changed(manifest, { ...initialSelection(manifest), stretch: -1 }, patch);
  const explained = number("explained") - 1;
  const stretch = stretchesOf(manifest).findIndex(
    (one) => one.frame === explained && holds(one, start.trajectory, start.frame),
  );
  return stretch < 0 ? start : changed(manifest, { ...start, stretch }, {});
}

/** The place that a query says; going there leaves names as they are. */
export function placeFromQuery(manifest, text) {
  const place = fromQuery(manifest, text);
  delete place.names;
  return place;
}

/** What a note can be on: the step that is shown. */
export function notePlaces(manifest, selection) {
  const place = `episode ${selection.trajectory + 1}, step ${selection.frame + 1}`;
  return [{ place, query: toQuery(manifest, { ...selection, names: {} }) }];
}
