// Keeps the page's address and the selection in step.
import { fromQuery, toQuery } from "../../pages/agent/address.js";

const REST_MS = 500;
/** A change of these is a place to come back to; a change of the rest only replaces the address. */
const PLACES = ["trajectory", "layer"];

export function followAddress(page) {
  const { manifest, selection } = page;
  const kept = keptParameters();
  let written = selection.now;
  let timer = null;

  function write() {
    timer = null;
    const now = selection.now;
    if (now === written) return;
    const push = PLACES.some((key) => now[key] !== written[key]);
    history[push ? "pushState" : "replaceState"](null, "", toQuery(manifest, now, kept));
    written = now;
  }

  const unsubscribe = selection.subscribe((value) => {
    if (value === written) return;
    clearTimeout(timer); // at rest only: every change begins the wait anew
    timer = setTimeout(write, REST_MS);
  });

  function restore() {
    const target = fromQuery(manifest, location.search);
    selection.change(target);
    written = selection.now;
  }

  window.addEventListener("popstate", restore);
  return () => {
    unsubscribe();
    clearTimeout(timer);
    window.removeEventListener("popstate", restore);
  };
}

/** What of the address is not about the selection. */
export function keptParameters() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(["embed", "panel"].filter((key) => query.has(key)).map((key) => [key, query.get(key)]));
}
