// Fields of a selection: what a reader selects on a page. The type of a field keeps its value in range and reads and writes
// it in the page's address, where things are counted from 1.
import { namesFromTexts, namesToTexts } from "../../data/names.js";

/**
 * @template T
 * @typedef {import("../../types").Option<T>} Option
 */

/**
 * @typedef {object} Field Its options, and `default`, may be functions (manifest, selection) => value, where the selection has
 *   the values of the fields before this one.
 * @property {string} name of the value in the selection
 * @property {string | Type} type the name of one of `TYPES`, or a type that only one kind of page has
 * @property {any} [default] by default that of the type
 * @property {string | null} [key] the parameter of the address; by default the name; null: not in the address
 * @property {boolean} [always] whether addresses have it even where it is the default
 * @property {boolean} [place] whether a change is a place to come back to with the browser's back button
 * @property {boolean} [stays] whether it is about the page, not about a place on it: going to a place leaves it as it is
 * @property {boolean} [kept] whether the browser keeps it as a setting, which is the default of later visits
 * @property {(selection: any) => boolean} [when] whether addresses have it
 * @property {string} [label] of its control, where the manifest describes the page
 * @property {Option<number>} [count] of an index
 * @property {Option<string[]>} [keys] in place of numbers in the address
 * @property {Option<any[]>} [options] of a choice
 * @property {Option<number>} [least]
 * @property {Option<number>} [most]
 * @property {boolean} [whole]
 * @property {Option<number>} [longest] characters of a text
 * @property {(manifest: any, selection?: any) => any} [of] what names or searches are of
 * @property {string[]} [conditions] kinds of conditions that a search may have
 * @property {Option<(item: any) => boolean>} [isPossible]
 * @property {string} [separator] of the items of a list
 *
 * @typedef {object} Context
 * @property {any} manifest
 * @property {any} selection the selection that the value is of
 * @property {any} before the value before a change
 * @property {any} initial the default
 * @property {(option: string) => any} get an option of the field
 *
 * @typedef {object} Type
 * @property {any} [initial] the default, or a function of the context
 * @property {(value: any, context: Context) => any} [clamp] the nearest value that is possible
 * @property {(value: any, context: Context) => string | number | string[] | null} [format] the text for the address, or several;
 *   null: none
 * @property {(text: any, context: Context) => any} [parse] the value of such a text (or of several, with `many`); undefined
 *   where it is none
 * @property {boolean} [many] whether addresses may have several texts
 * @property {(query: URLSearchParams, value: any, context: Context) => void} [write] in place of `format`, where a field has several
 *   parameters
 * @property {(query: URLSearchParams, context: Context) => any} [read] in place of `parse`
 * @property {(value: any, direction: number, context: Context) => any} [turn] the value that a key leads to, in a direction (-1 or 1)
 */

const NUMBER = /^-?\d*\.?\d+$/;

/** @returns {number | undefined} undefined where the text is not a number */
export const numberFrom = (text) => (NUMBER.test(text) ? Number(text) : undefined);

export const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

const FIGURES = 5;

/** A number as text with a few significant figures. */
export const shortNumber = (value) => String(Number(value.toPrecision(FIGURES)));

/** The same at an end of a range, rounded so that the range loses nothing. @param {number} end 0: the low one, 1: the high one */
export function outward(value, end) {
  const near = Number(value.toPrecision(FIGURES));
  const sign = end ? 1 : -1;
  if ((near - value) * sign >= 0) return shortNumber(near);
  return shortNumber(near + sign * 10 ** (Math.floor(Math.log10(Math.abs(near))) - FIGURES + 1));
}

/** The list, or the one before if it is the same. */
const unlessSame = (before, list) =>
  before?.length === list.length && list.every((item, i) => item === before[i]) ? before : list;

/** Distinct items of a list that a field may have; those before where it has none, but must have one. */
function cleanList(list, isPossible, { before, get }) {
  const possible = [...new Set(list)].filter(isPossible).slice(0, get("most") ?? Infinity);
  return possible.length || !get("least") ? unlessSame(before, possible) : before;
}

/** @type {Object<string, Type>} */
export const TYPES = {
  /** A number from 0: of `count`, or the place in the list `keys` of texts for the address. */
  index: {
    initial: 0,
    clamp(value, { get, initial }) {
      if (value === null && initial === null) return null;
      const last = Math.max(0, (get("count") ?? get("keys").length) - 1);
      return Number.isFinite(value) ? Math.round(clamp(value, 0, last)) : (initial ?? 0);
    },
    format: (value, { get }) => (value === null ? null : get("keys") ? (get("keys")[value] ?? null) : value + 1),
    parse(text, { get }) {
      const keys = get("keys");
      if (!keys) {
        const number = numberFrom(text);
        return number === undefined ? undefined : number - 1;
      }
      return keys.includes(text) ? keys.indexOf(text) : undefined;
    },
    turn: (value, direction) => value + direction,
  },
  /** A number from `least` to `most`; `whole`: an integer. Where the default is null, null is a value, too. */
  number: {
    initial: ({ get }) => get("least"),
    clamp(value, { get, initial }) {
      if (!Number.isFinite(value)) return value === null || initial !== null ? initial : null;
      const near = clamp(value, get("least") ?? -Infinity, get("most") ?? Infinity);
      return get("whole") ? Math.round(near) : near;
    },
    format: (value) => value,
    parse: numberFrom,
  },
  /** One of `options`. */
  choice: {
    initial: ({ get }) => get("options")[0] ?? "",
    clamp: (value, { get, initial }) => (get("options").includes(value) ? value : initial),
    format: (value) => value,
    parse: (text) => text,
    turn(value, direction, { get }) {
      const options = get("options");
      return options[(options.indexOf(value) + direction + options.length) % options.length];
    },
  },
  flag: {
    initial: false,
    clamp: Boolean,
    format: (value) => (value ? "1" : "0"),
    parse: (text) => (/^[01]$/.test(text) ? text === "1" : undefined),
    turn: (value) => !value,
  },
  /** A text of at most `longest` characters. */
  text: {
    initial: "",
    clamp: (value, { get }) => String(value).slice(0, get("longest") ?? 100),
    format: (value) => value,
    parse: (text) => text,
  },
  /** Distinct numbers from 0 of `count`, at most `most`, at least one if `least` is set. */
  indices: {
    initial: () => [],
    clamp: (list, context) =>
      cleanList(list, (k) => Number.isInteger(k) && k >= 0 && k < context.get("count"), context),
    format: (list) => list.map((k) => k + 1).join("."),
    parse: (text) => text.split(".").map((k) => Number(k) - 1),
  },
  /** Distinct texts, of which `isPossible` is true; `separator`: what joins them. At most `most`, at least one if `least` is set. */
  texts: {
    initial: () => [],
    clamp: (list, context) => cleanList(list, context.get("isPossible") ?? Boolean, context),
    format: (list, { get }) => list.join(get("separator") ?? ","),
    parse: (text, { get }) => text.split(get("separator") ?? ","),
  },
  /** Two numbers from 0 of `count`, the lower one first; or null. */
  range: {
    initial: null,
    clamp(value, { before, get }) {
      if (!value) return null;
      const last = Math.max(0, get("count") - 1);
      return unlessSame(
        before,
        value.map((step) => Math.round(clamp(step, 0, last))).sort((a, b) => a - b),
      );
    },
    format: (range) => range && range.map((step) => step + 1).join("-"),
    parse: (text) => (/^\d+-\d+$/.test(text) ? text.split("-").map((step) => Number(step) - 1) : undefined),
  },
  /** Names that the reader gave to features of the layers in `of` (data/names.js). */
  names: {
    initial: () => ({}),
    many: true,
    format: (names, { get }) => namesToTexts(get("of"), names),
    parse: (texts, { get }) => namesFromTexts(get("of"), texts),
  },
};

/** The reader's colors, a field of several kinds of page. "safe": for color-blind readers. */
export const PALETTE = {
  name: "palette",
  type: "choice",
  options: ["standard", "safe"],
  default: ({ view }) => view?.palette ?? "standard",
  kept: true,
};
