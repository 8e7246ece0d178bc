// The selection in the address: `?order=date`, or `?left=FOLDER&right=FOLDER&trajectory=3&frame=120`, counted from 1.
import { changed, INITIAL } from "./selection.js";

export const PLACES = ["left", "right"];

/** @returns {string} the query, with its question mark */
export function toQuery({ pages }, { left, right, panel, trajectory, frame, order }) {
  const query = new URLSearchParams();
  if (order !== INITIAL.order) query.set("order", order);
  if (left !== null) {
    query.set("left", pages[left].folder);
    query.set("right", pages[right].folder);
    if (panel) query.set("panel", panel);
    query.set("trajectory", trajectory + 1);
    query.set("frame", frame + 1);
  }
  return `?${query}`;
}

export function fromQuery(manifest, text) {
  const query = new URLSearchParams(text);
  const page = (name) => manifest.pages.findIndex(({ folder }) => folder === query.get(name));
  return changed(manifest, INITIAL, {
    left: page("left"),
    right: page("right"),
    panel: query.get("panel") ?? "",
    trajectory: Number(query.get("trajectory")) - 1,
    frame: Number(query.get("frame")) - 1,
    order: query.get("order") ?? INITIAL.order,
  });
}
