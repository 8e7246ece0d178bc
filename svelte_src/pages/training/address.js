// The selection in the page's address: `?checkpoints=1.10&episode=1&step=120`, counted from 1, defaults left out.
import { changed, initialSelection } from "./selection.js";

/** A change of these is a place to come back to with the browser's back button. */
export const PLACES = ["chosen", "episode"];
const TEXTS = ["sync", "method", "overlay", "scale", "output"];
const FLAGS = ["path", "grey"];
const NUMBERS = ["opacity", "threshold", "sure", "window", "visible"];
/** Longest name of a region in an address. */
const LONGEST = 60;

/** @returns {string} the query, with its question mark */
export function toQuery(training, selection, kept = {}) {
  const defaults = initialSelection(training);
  const query = new URLSearchParams(kept);
  query.set("checkpoints", selection.chosen.map((index) => index + 1).join("."));
  query.set("episode", selection.episode + 1);
  query.set("step", selection.step + 1);
  for (const key of [...TEXTS, ...NUMBERS]) if (selection[key] !== defaults[key]) query.set(key, selection[key]);
  // Other readers may prefer another palette, so only the standard one is left out.
  if (selection.palette !== "standard" || defaults.palette !== "standard") query.set("palette", selection.palette);
  for (const key of FLAGS) if (selection[key]) query.set(key, "1");
  const { rows, columns, boxes, names } = selection.regions;
  if (rows !== 2 || columns !== 2) query.set("grid", `${rows}x${columns}`);
  if (boxes.length) query.set("boxes", boxes.map((box) => box.map(short).join("~")).join(","));
  for (const [index, name] of Object.entries(names)) query.append("name", `${Number(index) + 1}~${name}`);
  if (selection.region) query.set("region", selection.region + 1);
  for (const [axis, range] of Object.entries(selection.brushes)) {
    query.append(
      "brush",
      [axis, ...range.map((value, i) => (axis === "step" ? value + 1 : outward(value, i)))].join("~"),
    );
  }
  if (selection.axes.length) query.set("axes", selection.axes.join("~"));
  return `?${query}`;
}

const FIGURES = 5;
const short = (value) => String(Number(value.toPrecision(FIGURES)));

/** An end of a range, rounded so that the range holds the same lines. @param {number} end 0: the low one, 1: the high one */
function outward(value, end) {
  const near = Number(value.toPrecision(FIGURES));
  const sign = end ? 1 : -1;
  if ((near - value) * sign >= 0) return short(near);
  return short(near + sign * 10 ** (Math.floor(Math.log10(Math.abs(near))) - FIGURES + 1));
}

/** @returns {import("./selection.js").Selection} what a query says, and defaults for the rest and for what is wrong */
export function fromQuery(training, text) {
  const query = new URLSearchParams(text);
  const patch = {};
  const number = (name) => (/^-?\d*\.?\d+$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  if (query.has("checkpoints"))
    patch.chosen = query
      .get("checkpoints")
      .split(".")
      .map((k) => Number(k) - 1);
  for (const name of ["episode", "step", "region"]) if (number(name) !== null) patch[name] = number(name) - 1;
  for (const name of [...TEXTS, "palette"]) if (query.has(name)) patch[name] = query.get(name);
  for (const name of NUMBERS) if (number(name) !== null) patch[name] = number(name);
  for (const key of FLAGS) if (query.has(key)) patch[key] = query.get(key) === "1";
  patch.regions = regionsFrom(query);
  patch.brushes = Object.fromEntries(query.getAll("brush").map(brushFrom).filter(Boolean));
  if (query.has("axes")) patch.axes = query.get("axes").split("~");
  return changed(training, initialSelection(training), patch);
}

/** Everything that an address says is a place. */
export const placeFromQuery = fromQuery;

function regionsFrom(query) {
  const [, rows, columns] = /^(\d+)x(\d+)$/.exec(query.get("grid") ?? "") ?? [null, 2, 2];
  const boxes = (query.get("boxes") ?? "").split(",").map((box) => (box ? box.split("~").map(Number) : []));
  const names = query.getAll("name").map((text) => /^(\d+)~(.+)$/.exec(text));
  return {
    rows: Number(rows),
    columns: Number(columns),
    boxes,
    names: Object.fromEntries(names.filter(Boolean).map(([, k, name]) => [k - 1, name.slice(0, LONGEST)])),
  };
}

function brushFrom(text) {
  const [axis, low, high] = text.split("~");
  if (!low || !high) return null;
  const from = axis === "step" ? 1 : 0;
  return [axis, [Number(low) - from, Number(high) - from]];
}

/** What a note can be on: the moment that is shown. */
export function notePlaces(training, selection) {
  const names = selection.chosen.map((index) => training.checkpoints[index].name).join(", ");
  const place = `${names}, episode ${selection.episode + 1}, step ${selection.step + 1}`;
  return [{ place, query: toQuery(training, selection) }];
}
