// A figure of tracks, as the page shows them.
import { get } from "svelte/store";
import { CANVAS } from "../image/colors.js";
import { cutText, FONT, stacked, textBlock, writeText } from "./figure.js";
import { formatNumber } from "../shell/format.js";
import { drawMarks, stepToX } from "../time/draw.js";

/** Pixels for a track's name and number. */
const LABEL = 150;
/** Pixels for its smallest and largest number. */
const LIMIT = 60;

/** @param {import("../../types").Page} page @param {string[]} caption lines above the tracks @returns {import("./figure.js").Figure} as wide as on the page */
export function tracksFigure({ tracks: shown, theme }, caption) {
  const tracks = [...shown]
    .map((describe) => describe())
    .filter(({ view }) => view.width > 0)
    .sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  if (!tracks.length) throw new Error("The page shows no tracks.");
  const tokens = CANVAS[get(theme)];
  const blocks = tracks.map((track) => trackBlock(track, tokens));
  return stacked([textBlock(caption), ...blocks], LABEL + Math.max(...tracks.map(({ view }) => view.width)) + LIMIT);
}

function trackBlock({ label, value, view, paint, range, marks }, tokens) {
  return {
    height: view.height,
    draw(context, top) {
      writeText(context, cutText(label, LABEL - 8), 0, top + FONT, true);
      writeText(context, value, 0, top + 2.4 * FONT);
      context.begin(LABEL, top, view.width, view.height);
      paint(context, view, tokens);
      drawMarks(context, view, marks, tokens.mark);
      context.fillStyle = tokens.playhead;
      context.fillRect(stepToX(view, view.frame) - 0.5, 0, 1, view.height);
      context.end();
      range?.forEach((limit, i) =>
        writeText(context, formatNumber(limit, 2), LABEL + view.width + 4, top + (i ? FONT : view.height - 2)),
      );
    },
  };
}
