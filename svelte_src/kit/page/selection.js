// The selection of a page, one value that every panel shows and the address holds, from the fields that a kind of page declares.
import { TYPES } from "./fields.js";

const typeOf = ({ type }) => (typeof type === "string" ? TYPES[type] : type);

function contextOf(field, manifest, selection, before) {
  const get = (option) => (typeof field[option] === "function" ? field[option](manifest, selection) : field[option]);
  return {
    manifest,
    selection,
    before,
    get,
    get initial() {
      const { initial } = typeOf(field);
      if ("default" in field) return get("default");
      return typeof initial === "function" ? initial(this) : initial;
    },
  };
}

/**
 * @param {object} definition
 * @param {import("./fields.js").Field[]} definition.fields in the order of the address; a field may depend on those before it
 * @param {(next: any, patch: any, manifest: any) => void} [definition.combine] changes other fields that a change
 *   affects, in place
 * @param {(manifest: any, selection: any, feature: any) => {place: string, patch?: object}[]} [definition.notes]
 *   what a note can be on: the moment in view, and what was looked at last, each in words, and the change that leads there
 */
export function defineSelection({ fields, combine = () => {}, notes = () => [] }) {
  const written = fields.filter(({ key }) => key !== null);

  function initialSelection(manifest) {
    const selection = {};
    for (const field of fields) selection[field.name] = contextOf(field, manifest, selection).initial;
    return selection;
  }

  function clamped(field, value, context) {
    const { clamp } = typeOf(field);
    return clamp ? clamp(value, context) : value;
  }

  /** A selection with a change made, everything in range. */
  function changed(manifest, selection, patch) {
    const next = { ...selection, ...patch };
    combine(next, patch, manifest);
    for (const field of fields) {
      const { name } = field;
      next[name] = clamped(field, next[name], contextOf(field, manifest, next, selection[name]));
    }
    return next;
  }

  /**
   * @param {Record<string, string>} [kept] parameters that are not about the selection
   * @returns {string} the query, with its question mark; without what is as at first
   */
  function toQuery(manifest, selection, kept = {}) {
    const query = new URLSearchParams(kept);
    const initial = initialSelection(manifest);
    for (const field of written) {
      const { name, key = name, always, when } = field;
      const type = typeOf(field);
      if (when && !when(selection)) continue;
      const context = contextOf(field, manifest, selection);
      if (type.write) {
        type.write(query, selection[name], context);
        continue;
      }
      const text = type.format(selection[name], context);
      const usual = type.format(initial[name], contextOf(field, manifest, initial));
      // Other readers may have kept another value, so only the first one is left out.
      const isUsual = String(text) === String(usual) && (!field.kept || text === context.get("options")[0]);
      if (text === null || (isUsual && !always)) continue;
      for (const one of [text].flat()) query.append(key ?? name, String(one));
    }
    return `?${query}`;
  }

  /** @returns {object} the selection of a query; defaults for what is not in it, or wrong */
  function fromQuery(manifest, text) {
    const query = new URLSearchParams(text);
    const initial = initialSelection(manifest);
    const selection = { ...initial };
    const patch = {};
    for (const field of written) {
      const { name } = field;
      const context = contextOf(field, manifest, selection, initial[name]);
      const value = read(query, field, context);
      if (value === undefined) continue;
      patch[name] = value;
      selection[name] = clamped(field, value, context);
    }
    return changed(manifest, initial, patch);
  }

  function read(query, field, context) {
    const { name, key = name } = field;
    const type = typeOf(field);
    if (type.read) return type.read(query, context);
    if (!query.has(key)) return undefined;
    return type.parse(type.many ? query.getAll(key) : query.get(key), context);
  }

  /** The place that a query leads to: without the fields that going there leaves as they are. */
  function placeFromQuery(manifest, text) {
    const place = fromQuery(manifest, text);
    for (const { name, stays } of fields) if (stays) delete place[name];
    return place;
  }

  /** What a note can be on, each with the query that leads there. @returns {{place: string, query: string}[]} */
  function notePlaces(manifest, selection, feature) {
    const initial = initialSelection(manifest);
    const usual = Object.fromEntries(fields.filter(({ stays }) => stays).map(({ name }) => [name, initial[name]]));
    return notes(manifest, selection, feature).map(({ place, patch = {} }) => ({
      place,
      query: toQuery(manifest, { ...changed(manifest, selection, patch), ...usual }),
    }));
  }

  /** The change that a key makes to a field, in a direction (-1 or 1). */
  function turned(manifest, selection, name, direction) {
    const field = /** @type {import("./fields.js").Field} */ (fields.find((candidate) => candidate.name === name));
    const context = contextOf(field, manifest, selection, selection[name]);
    return { [name]: typeOf(field).turn(selection[name], direction, context) };
  }

  return {
    fields,
    /** Names of the fields whose change is a place to come back to. */
    places: fields.filter(({ place }) => place).map(({ name }) => name),
    initialSelection,
    changed,
    toQuery,
    fromQuery,
    placeFromQuery,
    notePlaces,
    turned,
  };
}
