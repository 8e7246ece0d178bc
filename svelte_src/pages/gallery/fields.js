// What a reader selects in a gallery: `?order=date`, or `?left=FOLDER&right=FOLDER&trajectory=3&frame=120`.
import { ORDERS, PANELS, partners } from "./pages.js";

/**
 * @typedef {object} Selection
 * @property {string} order of the list
 * @property {number | null} left index of the page, null: the list
 * @property {number | null} right index of a page of the same recording
 * @property {string} panel the panel of both that is shown; "" for all
 * @property {number} trajectory
 * @property {number} frame
 */

const areTwo = ({ left }) => left !== null;
const folders = ({ pages }) => pages.map(({ folder }) => folder);
const steps = ({ pages }, { left }) => pages[left]?.steps ?? [1];

/** @type {import("../../kit/page/fields.js").Field[]} */
export const FIELDS = [
  { name: "order", type: "choice", options: Object.keys(ORDERS) },
  { name: "left", type: "index", keys: folders, default: null, place: true },
  { name: "right", type: "index", keys: folders, default: null, place: true },
  { name: "panel", type: "choice", options: PANELS },
  {
    name: "trajectory",
    type: "index",
    count: (manifest, selection) => steps(manifest, selection).length,
    always: true,
    when: areTwo,
  },
  {
    name: "frame",
    type: "index",
    count: (manifest, selection) => steps(manifest, selection)[selection.trajectory],
    always: true,
    when: areTwo,
  },
];

/** Two pages are shown only where they explain the same recording. */
export function combine(next, patch, manifest) {
  if (!manifest.pages[next.left] || !partners(manifest, next.left).includes(next.right)) next.left = next.right = null;
}
