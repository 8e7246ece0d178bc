// Frames by condition.

/**
 * The kinds of condition. `needs`: "series" or "totals"; `test(context, t)` says whether a step fits;
 * `score` orders what was found, strongest first.
 */
export const CONDITIONS = [
  { id: "action", label: "Action taken", value: "action", needs: "series" },
  { id: "reward", label: "Reward", value: "number", compare: true, needs: "series", start: 0 },
  { id: "advantage", label: "Advantage", value: "number", compare: true, needs: "series", start: 0 },
  { id: "output", label: "Output", value: "number", output: true, compare: true, needs: "series", start: 0 },
  { id: "jump", label: "Jump of an output", value: "number", output: true, compare: true, needs: "series", start: 0 },
  {
    id: "channel",
    label: "Strength of a channel",
    value: "number",
    channel: true,
    compare: true,
    needs: "totals",
    start: 0,
  },
  { id: "first", label: "First frame of an episode", value: null, needs: "series" },
];

/** What a condition measures at every step, as a function of the step; null where the page does not have it. */
export function measureOf(condition, { series, firsts, output, channel }) {
  if (condition.kind === "action") return (t) => series.actions.data[t];
  if (condition.kind === "reward") return (t) => series.rewards.data[t];
  if (condition.kind === "advantage") return (t) => series.advantages.data[t];
  if (condition.kind === "first") return (t) => firsts[t];
  if (condition.kind === "output") return output && ((t) => output[t]);
  if (condition.kind === "jump") return output && ((t) => (t === 0 || firsts[t] ? 0 : output[t] - output[t - 1]));
  if (condition.kind === "channel") return channel && ((t) => channel[t]);
  return null;
}

/** @returns {{frame: number, measure: number}[]} steps that fit, in order of time */
export function findFrames(condition, context) {
  const measure = measureOf(condition, context);
  if (!measure) return [];
  const fits = fitting(condition);
  const found = [];
  for (let t = 0; t < context.firsts.length; t += 1) {
    const value = measure(t);
    if (fits(value)) found.push({ frame: t, measure: value });
  }
  return found;
}

function fitting({ kind, compare, value }) {
  if (kind === "action") return (x) => x === value;
  if (kind === "first") return (x) => x !== 0;
  return compare === "below" ? (x) => x < value : (x) => x > value;
}

/** Strongest first for numbers, in order of time for the rest. */
export function ordered(found, condition) {
  if (condition.kind === "action" || condition.kind === "first") return found;
  const sign = condition.compare === "below" ? 1 : -1;
  return [...found].sort((a, b) => sign * (a.measure - b.measure));
}
