// The regions of a frame whose shares are shown: a grid over the maps, or boxes.
import { clamp, shortNumber } from "../../kit/page/fields.js";

/**
 * @typedef {{rows: number, columns: number, boxes: number[][], names: Object<number, string>}} Regions a grid over the maps,
 *   or boxes [top, left, bottom, right] as shares of the frame, where there are any
 */

export const MOST_REGIONS = 64;
const MOST_ROWS = Math.floor(Math.sqrt(MOST_REGIONS));
/** Longest name of a region in an address. */
const LONGEST = 60;

export const regionCount = ({ rows, columns, boxes }) => boxes.length || rows * columns;

const count = (value) => (Number.isFinite(value) ? Math.round(clamp(value, 1, MOST_ROWS)) : 1);

function cleanBox(box) {
  const [top, left, bottom, right] = box.map((at) => clamp(at, 0, 1));
  return [Math.min(top, bottom), Math.min(left, right), Math.max(top, bottom), Math.max(left, right)];
}

/** The field: `grid=2x3`, or `boxes=0.1~0.2~0.3~0.4`, and `name=1~door` for each name. */
export const REGIONS = {
  initial: () => ({ rows: 2, columns: 2, boxes: [], names: {} }),
  clamp(regions, { before }) {
    if (regions === before) return before;
    const { rows, columns, boxes, names } = regions;
    const possible = boxes.filter((box) => box.length === 4 && box.every(Number.isFinite));
    return {
      rows: count(rows),
      columns: count(columns),
      boxes: possible.map(cleanBox).slice(0, MOST_REGIONS),
      names: Object.fromEntries(Object.entries(names).filter(([, name]) => name)),
    };
  },
  write(query, { rows, columns, boxes, names }) {
    if (rows !== 2 || columns !== 2) query.set("grid", `${rows}x${columns}`);
    if (boxes.length) query.set("boxes", boxes.map((box) => box.map(shortNumber).join("~")).join(","));
    for (const [index, name] of Object.entries(names)) query.append("name", `${Number(index) + 1}~${name}`);
  },
  read(query) {
    const [, rows, columns] = /^(\d+)x(\d+)$/.exec(query.get("grid") ?? "") ?? [null, 2, 2];
    const boxes = (query.get("boxes") ?? "").split(",").map((box) => (box ? box.split("~").map(Number) : []));
    const names = query.getAll("name").map((text) => /^(\d+)~(.+)$/.exec(text));
    return {
      rows: Number(rows),
      columns: Number(columns),
      boxes,
      names: Object.fromEntries(names.filter(Boolean).map(([, k, name]) => [k - 1, name.slice(0, LONGEST)])),
    };
  },
};
