// A figure of bars.
import { get } from "svelte/store";
import { cutText, FONT, stacked, textBlock, textWidth, writeText } from "../../kit/export/figure.js";
import { formatNumber } from "../../kit/shell/format.js";
import {
  isIncomplete,
  startWord,
  targetDecomposition,
  waterfall,
  waterfallRange,
  PART_WORDS,
} from "./decomposition.js";
import { hatch } from "./stack.js";
import { captionOf, HATCHED, rowCaption } from "./figure.js";
import { shownTargets } from "./rows.js";

/** Pixels of a column, of its bar and of the words below it. */
const [COLUMN, BARS, WORDS] = [72, 150, 40];
const LEAST = 480;

/** The waterfalls of every row at the selected frame. @returns {Promise<import("../../kit/export/figure.js").Figure>} */
export async function barsFigure(page) {
  const { manifest, chunks } = page;
  const blocks = [textBlock([captionOf(page)], true)];
  let width = Math.max(LEAST, textWidth(captionOf(page)));
  for (const target of shownTargets(manifest, page.selection.now).filter(({ past }) => !past)) {
    const { arrays: series } = await chunks.get(manifest.trajectories[target.trajectory].series);
    const layer = manifest.layers[target.layer];
    const name = layer?.totals?.[target.trajectory];
    const decomposition = name && targetDecomposition(manifest, (await chunks.get(name)).arrays, target, series);
    if (!decomposition) continue;
    const block = waterfallBlock(page, target, decomposition);
    width = Math.max(width, block.width);
    const lines = [rowCaption(page, target), ...(isIncomplete(manifest, target, decomposition) ? [HATCHED] : [])];
    blocks.push(textBlock(lines), block);
  }
  if (blocks.length === 1) throw new Error("There are no bars in this frame.");
  return stacked(blocks, width);
}

function waterfallBlock({ manifest, colors, names }, target, decomposition) {
  const ofInput = manifest.layers[target.layer].kind === "input";
  const palette = get(colors)[target.layer];
  const [least, most] = waterfallRange(decomposition);
  const steps = waterfall(decomposition, target.frame).filter(({ name }) => !ofInput || name.startsWith("feature"));
  const remembers = decomposition.memory.some((value) => value !== 0);
  const baseline = decomposition.baseline[target.frame];
  const output = decomposition.output[target.frame];
  /** @type {{name?: string, word: string, color?: string, from: number, to: number, value: number}[]} */
  const columns = [
    { word: startWord(ofInput ? null : target.instead), from: 0, to: 0, value: baseline },
    ...steps
      .filter(({ name }) => name !== "memory" || remembers)
      .map((step) => ({
        ...step,
        word: step.name.startsWith("feature")
          ? get(names).name(target.layer, step.channel) || `${Number(step.channel) + 1}`
          : (PART_WORDS[step.name] ?? step.name),
        color: palette[step.channel ?? -1]?.color,
      })),
    { word: ofInput ? "sum" : "output", from: output - baseline, to: output - baseline, value: output },
  ];
  const toY = (level) => 6 + (BARS - 12) * (1 - (level - least) / (most - least));
  return {
    width: columns.length * COLUMN,
    height: BARS + WORDS,
    draw(context, top) {
      const uncertain = isIncomplete(manifest, target, decomposition) ? hatch(context, { ink: "#000000" }, true) : null;
      const fills = {
        residual: hatch(context, { ink: "#000000" }),
        memory: "#666666",
        completeness_error: "#bbbbbb",
        start: "#bbbbbb",
      };
      columns.forEach(({ name, word, from, to, value, color }, i) => {
        const [left, high, low] = [i * COLUMN, toY(Math.max(from, to)), toY(Math.min(from, to))];
        context.fillStyle = uncertain ?? fills[name] ?? color ?? "#000000";
        if (name) context.fillRect(left + 10, top + high, COLUMN - 20, low - high);
        context.fillStyle = "#000000";
        context.fillRect(left + (name ? COLUMN / 2 : 0), top + toY(to) - 0.5, COLUMN, name ? 1 : 2);
        writeText(context, cutText(word, COLUMN - 4), left + 2, top + BARS + FONT);
        writeText(context, formatNumber(value), left + 2, top + BARS + 2.4 * FONT, !name);
      });
    },
  };
}
