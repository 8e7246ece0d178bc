// What a gallery shows: the list, or two pages at a frame of the recording that they share.

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

/**
 * @typedef {object} Selection
 * @property {number | null} left index of the page, null: the list
 * @property {number | null} right index of a page of the same recording
 * @property {string} panel the panel of both that is shown; "" for all
 * @property {number} trajectory
 * @property {number} frame
 * @property {string} order of the list
 */
export const INITIAL = { left: null, right: null, panel: "", trajectory: 0, frame: 0, order: "folder" };

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

const clamp = (value, last) => Math.max(0, Math.min(last, Math.round(value) || 0));

/** A selection with a change made, everything in range. @returns {Selection} */
export function changed(manifest, selection, patch) {
  const next = { ...selection, ...patch };
  if (!manifest.pages[next.left] || !partners(manifest, next.left).includes(next.right)) next.left = next.right = null;
  if (!PANELS.includes(next.panel)) next.panel = "";
  if (!Object.hasOwn(ORDERS, next.order)) next.order = "folder";
  const steps = manifest.pages[next.left]?.steps ?? [1];
  next.trajectory = clamp(next.trajectory, steps.length - 1);
  next.frame = clamp(next.frame, steps[next.trajectory] - 1);
  return next;
}
