// Files that pages of several kinds offer, and how tables and arrays become files.
import { toCsv } from "../shell/format.js";
import { chartsSvg } from "./charts.js";
import { figureSvg } from "./figure.js";
import { encodeNpz } from "./npz.js";
import { tracksFigure } from "./tracks.js";

/**
 * What a page saves as files. A kind of page exports `filesOf(page)`, which returns a store of it.
 *
 * @typedef {object} Offer
 * @property {"frame" | "step"} word what the page calls a moment
 * @property {{figures: string, clip: string, tables: string}} texts paragraphs about each group of files
 * @property {string} [tablesTitle]
 * @property {string} stem names the episodes that are shown; names of files begin with it
 * @property {string} [suffix] the end of the names of figures and clips
 * @property {number} steps
 * @property {number} frame the moment that is shown
 * @property {(page: object, frame: number, scale: number) => Promise<import("./figure.js").Figure>} figureAt
 * @property {File[]} figures more files of the moment
 * @property {File[]} tables
 */

/**
 * @typedef {object} File
 * @property {string} id
 * @property {string} label
 * @property {(page: object) => Blob | Promise<Blob>} make
 * @property {string} [name] of an SVG file, the default has the moment and the file's id
 */

/** @type {File} */
export const CHARTS = { id: "charts", label: "Charts (SVG)", make: chartsSvg };

/** The tracks as the page shows them. @param {(page: object) => string[]} captionOf lines above them @returns {File} */
export const tracksFile = (captionOf = ({ manifest }) => [manifest.title]) => ({
  id: "tracks",
  label: "Tracks (SVG)",
  make: (page) => figureSvg(tracksFigure(page, captionOf(page))),
});

/** @param {any[][]} rows of cells, the first one with the columns' names */
export const csvFile = (rows) => new Blob([toCsv(rows)], { type: "text/csv" });

export const npzFile = (arrays) => new Blob([encodeNpz(arrays)], { type: "application/octet-stream" });
