// Ranges of numbers that are brushed on axes; that of the axis `step` is the range of steps.
import { outward } from "../../kit/page/fields.js";

/** The field: "step~11~40" and "value~0.5~2", one parameter for each axis. */
export const BRUSHES = {
  initial: () => ({}),
  many: true,
  clamp(brushes, { before }) {
    if (brushes === before) return before;
    const known = Object.entries(brushes).filter(([, range]) => range?.every(Number.isFinite));
    return Object.fromEntries(known.map(([axis, [a, b]]) => [axis, [Math.min(a, b), Math.max(a, b)]]));
  },
  format: (brushes) =>
    Object.entries(brushes).map(([axis, range]) =>
      [axis, ...range.map((value, end) => (axis === "step" ? value + 1 : outward(value, end)))].join("~"),
    ),
  parse: (texts) => Object.fromEntries(texts.map(brushFrom).filter(Boolean)),
};

function brushFrom(text) {
  const [axis, low, high] = text.split("~");
  if (!low || !high) return null;
  const from = axis === "step" ? 1 : 0;
  return [axis, [Number(low) - from, Number(high) - from]];
}
