// Tracks that pages of several kinds have, as Tracks.svelte takes them.
import { latest } from "../../data/cache.js";
import { drawBand, drawTaken } from "../time/draw.js";

/**
 * Paint the probabilities of actions as a band, with a mark on the action that was taken: the same function for the same
 * arguments.
 *
 * @param {string[]} colors of the actions
 * @returns {(probabilities: object, actions: object | null, steps: number) => Function} of arrays of an episode
 */
export const policyPainter = (colors) =>
  latest((probabilities, actions, steps) => (context, axisView) => {
    const view = { ...axisView, steps };
    drawBand(context, view, probabilities, colors);
    if (actions) drawTaken(context, view, probabilities, actions.data);
  });
