// Keeps the page's address and the selection in step. A kind of page brings its codec: `toQuery(manifest, selection, kept)`,
// `placeFromQuery(manifest, text)`, and `PLACES`: what of a selection is a place to come back to.

const REST_MS = 500;

export function followAddress({ manifest, selection, codec }) {
  const kept = keptParameters();
  let written = selection.now;
  let timer = null;

  function write() {
    timer = null;
    const now = selection.now;
    if (now === written) return;
    // In a frame, the back button belongs to the page around it.
    const push = window.parent === window && codec.PLACES.some((key) => now[key] !== written[key]);
    history[push ? "pushState" : "replaceState"](null, "", codec.toQuery(manifest, now, kept));
    written = now;
  }

  const unsubscribe = selection.subscribe((value) => {
    if (value === written) return;
    clearTimeout(timer); // written at rest only
    timer = setTimeout(write, REST_MS);
  });

  function restore() {
    selection.change(codec.placeFromQuery(manifest, location.search));
    written = selection.now;
  }

  window.addEventListener("popstate", restore);
  return () => {
    unsubscribe();
    clearTimeout(timer);
    window.removeEventListener("popstate", restore);
  };
}

/** The parameters of the address that are not about the selection. */
export function keptParameters() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(["embed", "panel"].filter((key) => query.has(key)).map((key) => [key, query.get(key)]));
}

/** Copy the address of what is shown. */
export async function copyLink({ manifest, selection, codec, announcement }) {
  const link = new URL(codec.toQuery(manifest, selection.now), location.href.split(/[?#]/)[0]).href;
  try {
    await navigator.clipboard.writeText(link);
    announcement.set("Link copied");
  } catch {
    announcement.set("The browser does not allow copying here; the link is in the address bar");
  }
  setTimeout(() => announcement.set(""), 2500);
}

/** Save a file. */
export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** The name, among those of a page's panels, that an address means; null if there is none. */
export function panelNamed(names, aliases, name) {
  const meant = Object.hasOwn(aliases, name) ? aliases[name] : name;
  return names.includes(meant) ? meant : null;
}
