// The order of axes, and their numbers as text.
import { formatNumber } from "../../kit/shell/format.js";

/** Keys of the axes with one moved to where it was dropped. */
export function moved(axes, key, xs, x) {
  const others = axes.map((axis, i) => ({ key: axis.key, x: xs[i] })).filter((axis) => axis.key !== key);
  const place = others.filter((axis) => axis.x < x).length;
  return placed(others, key, place);
}

/** Keys of the axes with one moved by so many places. */
export function movedBy(axes, key, by) {
  const from = axes.findIndex((axis) => axis.key === key);
  const others = axes.filter((axis) => axis.key !== key);
  return placed(others, key, Math.max(0, Math.min(others.length, from + by)));
}

const placed = (others, key, place) => {
  const keys = others.map((axis) => axis.key);
  return [...keys.slice(0, place), key, ...keys.slice(place)];
};

/** Steps count from 1. */
export const axisText = ({ key }, value) => (key === "step" ? String(Math.round(value) + 1) : formatNumber(value));
