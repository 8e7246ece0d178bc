// Curves of the memory replay: how outputs differ, by the number of steps since the state was changed.
import { rowOf } from "../../data/series.js";
import { argmax } from "../../kit/time/numbers.js";

export const MEASURES = [
  { id: "policy", label: "change of the policy", unit: "nats" },
  { id: "value", label: "change of the value", unit: "" },
  { id: "same_action", label: "share of the same action", unit: "" },
];

/** A change in words; `nameOf` is what the page calls a direction of the data. */
export const changeText = (change, nameOf = (name) => name) =>
  change.startsWith("removed ") ? `without ${nameOf(change.slice("removed ".length))}` : `state ${change}`;

/** A measure's curve of a change (C): {values, low, high} by lag; without an interval where there is none. */
export function curveOf(arrays, measure, change) {
  const ends = rowOf(arrays[`${measure}_interval`], change);
  return {
    values: rowOf(arrays[measure], change),
    low: ends?.filter((_, i) => i % 2 === 0),
    high: ends?.filter((_, i) => i % 2 === 1),
  };
}

/** The first lag after the largest change at which it is below half of it; null if there is none. */
export function halfLag(values) {
  const peak = argmax(values);
  const lag = values.findIndex((value, i) => i > peak && value < values[peak] / 2);
  return lag < 0 ? null : lag;
}
