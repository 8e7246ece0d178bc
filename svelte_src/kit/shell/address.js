// Keeps the page's address and the selection in step.

const REST_MS = 500;

/**
 * Write the selection into the address at rest. A change of place adds an entry to the browser's history at once, so that the
 * back button leads to the place before it; changes of place in quick succession are one entry.
 */
export function followAddress({ manifest, selection, codec, source }) {
  const kept = keptParameters(source);
  const isFramed = window.parent !== window; // the back button belongs to the page around it
  let [written, before] = [selection.now, selection.now];
  let placed = -Infinity; // when the place changed last
  let timer = null;

  function write(now, method = "replaceState") {
    clearTimeout(timer);
    if (now === written) return;
    history[method](null, "", partOf(codec.toQuery(manifest, now, kept), source));
    written = now;
  }

  function follow(now) {
    if (now === before) return;
    const last = before;
    before = now;
    const isPlace = !isFramed && codec.places.some((key) => now[key] !== last[key]);
    const isNext = isPlace && performance.now() - placed > REST_MS;
    if (isPlace) placed = performance.now();
    if (isNext) {
      write(last);
      write(now, "pushState");
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => write(now), REST_MS);
  }

  function restore() {
    const patch = codec.placeFromQuery(manifest, addressQuery(source));
    unsubscribe();
    selection.change(patch);
    clearTimeout(timer);
    written = before = selection.now;
    unsubscribe = selection.subscribe(follow);
  }

  let unsubscribe = selection.subscribe(follow);
  window.addEventListener("popstate", restore);
  return () => {
    unsubscribe();
    clearTimeout(timer);
    window.removeEventListener("popstate", restore);
  };
}

/** The query of the selection in the address: a server's own parameters stay, so that its pages have it after the "#". */
export const addressQuery = (source) => (source ? `?${location.hash.slice(1)}` : location.search);

const partOf = (query, source) => (source ? `#${query.slice(1)}` : query);

/** The parameters of the address that are not about the selection. */
export function keptParameters(source) {
  const query = new URLSearchParams(addressQuery(source));
  return Object.fromEntries(["embed", "panel"].filter((key) => query.has(key)).map((key) => [key, query.get(key)]));
}

/** Copy the address of what is shown. */
export async function copyLink({ manifest, selection, codec, announcement, source }) {
  const here = location.href.split(source ? "#" : /[?#]/)[0];
  const link = new URL(partOf(codec.toQuery(manifest, selection.now), source), here).href;
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
