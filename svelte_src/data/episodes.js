// Episodes of a trajectory, as the manifest lists them; pages of earlier versions do not.

/** The episode that a frame is in, or undefined. */
export const episodeAt = ({ episodes = [] }, frame) => episodes.findLast((episode) => episode.frame <= frame);

/** How long an episode is: "60", or "128+" where the recording stops before its end. */
export const lengthOf = ({ steps, end }) => `${steps}${end === "cut" ? "+" : ""}`;

/** "ended after 60, return 0", "128+ (cut), return 3" */
export const episodeText = ({ steps, end, return: sum }) =>
  `${end === "cut" ? `${steps}+ (cut)` : `ended after ${steps}`}, return ${String(Number(sum.toPrecision(4))).replace("-", "\u2212")}`;

/** Why an episode ended, where that is recorded: "saw", or else "done", "time limit". */
export const endText = ({ end, cause }) => cause || (end === "done" || end === "time limit" ? end : "");

/** The causes of ends of a page's episodes, and whether one is an episode's: [id, label]. */
export const causesOf = ({ trajectories }) =>
  [...new Set(trajectories.flatMap(({ episodes = [] }) => episodes.map(endText)))]
    .filter(Boolean)
    .sort()
    .map((cause) => [idOf(cause), cause]);

const idOf = (cause) => cause.replaceAll(/[^\p{L}\p{N}]+/gu, "-");

/** The last frames of the episodes of a trajectory that a cause ended: a map, as conditions on places need it. */
export const framesEndedBy = ({ episodes = [] }, id) =>
  new Map(episodes.filter((one) => idOf(endText(one)) === id).map(({ frame, steps }) => [frame + steps - 1, 1]));
