// The pages of a gallery.

/** Orders of the list, by name: what pages are compared by. */
export const ORDERS = {
  folder: (page) => page.folder,
  title: (page) => page.title,
  environment: (page) => page.env_name ?? "",
  return: (page) => -(page.return?.mean ?? -Infinity),
  date: (page) => -Date.parse(page.date ?? 0),
};

/** The panel of both pages that is shown; "" for all. */
export const PANELS = ["", "attribution", "outputs", "timeline"];

/** Indices of the pages, in order; equal ones keep theirs. */
export function ordered({ pages }, order) {
  const value = ORDERS[order];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return pages.map((_, index) => index).sort((a, b) => compare(value(pages[a]), value(pages[b])));
}

/** Indices of the other pages that explain the same recording as a page. */
export function partners({ pages }, index) {
  const { recording } = pages[index];
  return pages
    .map((_, other) => other)
    .filter((other) => other !== index && recording && pages[other].recording === recording);
}
