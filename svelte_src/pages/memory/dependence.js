// What the section `memory_matrix` says: which decisions depend on what was seen before (docs/page-format.md).
import { formatNumber, formatPercent } from "../../kit/shell/format.js";

/** With fewer episodes, the interval of a mean says nothing. */
const FEWEST = 5;

const steps = (count) => `${count} ${count === 1 ? "step" : "steps"}`;

/** The page's first sentences. @param {any} matrix data of the section @returns {string[]} */
export function verdict({ reach, strongest, partners, skipped }) {
  if (!reach)
    return [`How far back decisions depend on memory was not measured: ${skipped ?? "no states were exchanged"}.`];
  const interval = `95 % interval ${reach.interval.map((end) => formatNumber(end, 2)).join(" to ")}`;
  const effect = `${formatNumber(reach.effect, 2)} nats on average (${interval})`;
  const power = `A dependence in more than ${formatPercent(reach.detectable)} of the episodes would have been seen in at least one of them, with a probability of 95 %; changes below ${formatNumber(reach.noticeable, 2)} nats are not counted.`;
  const first = strongest
    ? [
        `The decision at step ${strongest.frame + 1} of episode ${strongest.trajectory + 1} depends on ${earliest(strongest)}: with the memory of ${partners} other episodes its policy changes by ${formatNumber(strongest.policy, 2)} nats (standard deviation over these episodes ${formatNumber(strongest.spread, 2)})${atFirst(strongest)}.`,
      ]
    : [];
  if (reach.steps)
    return [
      ...first,
      `Decisions depend on frames up to ${steps(reach.steps)} earlier: the largest change at that distance is ${reach.count < FEWEST ? `${formatNumber(reach.effect, 2)} nats on average` : effect}, in ${reach.count} of ${reach.episodes} episodes (those with at least ${formatNumber(reach.noticeable, 2)} nats); up to ${steps(reach.longest)} were tested.`,
    ];
  const most = first.length ? "Only in single episodes do decisions" : "This agent's decisions hardly";
  return [
    ...first,
    `${most} depend on what was seen before: the largest change in an episode is ${effect}, in ${reach.episodes} episodes, up to ${steps(reach.longest)} back. ${power}`,
  ];
}

/** The first step that a decision depends on, or the steps of which one is it. */
function earliest({ frame, begins, until }) {
  if (until === begins) return `step ${begins + 1}, ${steps(frame - begins)} earlier`;
  return `a step from ${begins + 1} to ${until + 1}, ${frame - until} to ${steps(frame - begins)} earlier`;
}

/** How much of the change is due to what was seen up to that step, where it is not nearly all. */
const atFirst = ({ until, change, policy }) =>
  change > 0.9 * policy
    ? ""
    : `, and by ${formatNumber(change, 2)} nats if only what was seen up to step ${until + 1} is exchanged`;

/** An entry of an episode's matrix, row by row, in words. */
export function entryText({ exchanged, policy, policy_spread: spread, value }, index, partners) {
  const columns = policy.shape[1];
  const [row, step] = [Math.floor(index / columns), index % columns];
  const before = exchanged.data[row];
  if (!Number.isFinite(policy.data[index])) return `Step ${step + 1} is before the exchange at step ${before + 1}.`;
  const [nats, deviation, change] = [policy, spread, value].map(({ data }) => formatNumber(data[index], 2));
  return `If what was seen before step ${before + 1} is exchanged for what ${partners} other episodes saw, the policy at step ${step + 1} changes by ${nats} nats (standard deviation ${deviation}), and the value by ${change}.`;
}

/** The step of an index of the matrix. */
export const stepOf = ({ policy }, index) => index % policy.shape[1];

/** The steps before which states were exchanged, counted from 1. */
export const rowNames = ({ exchanged }) => Array.from(exchanged.data, (step) => step + 1);

/** Of each decision the largest change: how much it depends on anything remembered; 0 where nothing was exchanged before. */
export function readSteps({ policy: { data, shape } }) {
  const [rows, columns] = shape;
  return Float32Array.from({ length: columns }, (_, step) => {
    let most = 0;
    for (let row = 0; row < rows; row += 1) most = Math.max(most, data[row * columns + step] || 0);
    return most;
  });
}
