// A kind of page from what it declares: fields that a reader selects, panels in slots, keys, a tour, and what only it does.
import { derived, get, readable } from "svelte/store";
import { cleanNames, mergedNames } from "../../data/names.js";
import { createNames } from "../shell/names.js";
import { createKept, createSelection } from "../shell/page.js";
import { clockOf, createPlayer } from "../time/clock.js";
import { defineSelection } from "./selection.js";

const NO_NAMES = { subscribe: readable({ given: {} }).subscribe, add() {} };

/**
 * @typedef {object} Definition
 * @property {import("./fields.js").Field[]} fields
 * @property {(next: any, patch: any, manifest: any) => void} [combine] see `defineSelection`, as for `notes`
 * @property {(manifest: any, selection: any, feature: any) => {place: string, patch?: object}[]} [notes]
 * @property {{episode?: string, frame: string, window?: string}} [time] names of the fields that the page's clock moves
 * @property {(manifest: any, selection: any, episode: number) => number} [steps] of an episode
 * @property {(manifest: any) => string} [checkpoint] whose episodes these are, as in a brush
 * @property {(manifest: any) => object} [read] what the page knows of its manifest; it becomes part of it
 * @property {(manifest: any) => string | null} [problemWith] why the page cannot be shown
 * @property {(manifest: any) => string} [unfinished] what is done on an unfinished page, and what is not computed yet
 * @property {string[]} [sections] kinds of sections that the page's own panels draw
 * @property {Object<string, object>} [panels] modules of panels by name, also in place of those that all pages have
 * @property {Object<string, string[]>} [layout] panels by slot: `navigation` at the left, `main`, `legend` at the right, `tabs`
 *   below these, of which one is shown at a time, and `aside`, which open over the page
 * @property {object} [labels] of the slots, and `skip`, of the link to `main`
 * @property {Object<string, string>} [aliases] other names of panels in addresses, such as those of earlier versions
 * @property {object[]} [keys] shortcuts; one with `field` turns this field, and makes the change `and`; one with
 *   `panel` is there where the page has that panel
 * @property {string[][]} [tour] stops: the panel, a title and a text
 * @property {{title: string, text: string}[]} [explanations] paragraphs of the help
 * @property {(manifest: any) => (string | null | undefined | false)[]} [facts] below the title
 * @property {(page: import("../../types").Page) => object} [filesOf] what the page saves: a store of an Offer of kit/export/files.js
 * @property {(page: import("../../types").Page) => void} [extend] adds to the page what its panels need, and `actions` of the keys
 * @property {(page: import("../../types").Page) => object} [scripting] what `window.rlClarity` offers beside what every page has
 * @property {string} [side] width of the slot `navigation`, which then stays in view
 * @property {string} [legendSize] width of the slot `legend`
 * @property {object} [component] drawn instead of panels in slots
 */

/** @param {Definition} definition */
export function definePage(definition) {
  const codec = defineSelection(definition);
  const kind = { panels: {}, sections: [], layout: {}, labels: {}, aliases: {}, keys: [], tour: [], ...definition };
  kind.keys = kind.keys.map((key) => ({ action: key.field, ...key }));
  const { time, steps, read, explanations = [], facts, extend } = kind;
  const { panels, layout, labels, aliases, keys, tour, side, legendSize, filesOf, unfinished } = kind;

  /**
   * @param {ReturnType<import("../shell/page.js").createShell>} shell
   * @param {string} query that of the address
   */
  function create(shell, query) {
    // The reader's palette of an earlier visit, unless the address gives one.
    const view = { ...shell.manifest.view, palette: get(shell.settings).palette };
    const manifest = { ...shell.manifest, view, ...read?.({ ...shell.manifest, view }) };
    const page = /** @type {import("../../types").Page} its clock follows */ (
      /** @type {unknown} */ ({
        ...{ panels, layout, labels, aliases, keys, tour, side, legendSize, filesOf, unfinished },
        ...shell,
        manifest,
        codec,
        ...createSelected(codec, manifest, query),
        /** What was looked at last that notes can be on, beside the moment; or null. */
        feature: readable(null),
        explanations: [...explanations, ...shell.manifest.explanations],
        facts: facts?.(manifest) ?? [],
        hasPanel: () => true,
      })
    );
    keepSettings(page);
    if (time && steps) useClock(page, clockOver(page, time, steps, { checkpoint: kind.checkpoint?.(manifest) }));
    extend?.(page);
    page.keys = keys.filter(({ panel }) => !panel || page.hasPanel(panel));
    page.actions = { ...turningActions(page), ...page.actions };
    return page;
  }
  return { ...kind, codec, create };
}

/** The selection of an address, and the names in it; those that the browser keeps come first. */
function createSelected(codec, manifest, query) {
  const { changed, fromQuery, fields } = codec;
  const initial = fromQuery(manifest, query);
  const create = () => createSelection(initial, (now, patch) => changed(manifest, now, patch));
  const field = fields.find(({ type }) => type === "names");
  if (!field) return { selection: create(), names: NO_NAMES };
  const named = field.of(manifest);
  const kept = createKept(`rl-clarity:${manifest.id}:names`, {}, (value) => cleanNames(named, value));
  initial[field.name] = mergedNames(get(kept), initial[field.name]);
  const selection = create();
  return { selection, names: createNames(named, selection, kept) };
}

/** Keep settings for later visits once the reader has changed them; a link alone changes none. @param {import("../../types").Page} page */
function keepSettings({ codec, selection, settings }) {
  for (const { name } of codec.fields.filter(({ kept }) => kept)) {
    let before = selection.now[name];
    selection.subscribe((now) => {
      const value = now[name];
      if (value !== before) settings.update((now) => ({ ...now, [name]: value }));
      before = value;
    });
  }
}

/** Actions of the keys that turn a field: of two keys, the first one turns it back. @param {import("../../types").Page} page */
const turningActions = ({ codec, keys, manifest, selection }) =>
  Object.fromEntries(
    keys
      .filter(({ field }) => field)
      .map(({ action, field, and, keys: [back, forward] }) => [
        action,
        (key) => {
          const direction = forward && key === back ? -1 : 1;
          selection.change({ ...codec.turned(manifest, selection.now, field, direction), ...and });
        },
      ]),
  );

/**
 * The clock over the time that a page's selection holds.
 *
 * @param {Pick<import("../../types").Page, "manifest" | "selection">} page
 * @param {{episode?: string, frame: string, window?: string}} time names of the fields
 * @param {(manifest: any, selection: any, episode: number) => number} steps of an episode
 * @param {{checkpoint?: string, others?: import("svelte/store").Readable<any>[]}} [options] whose episodes these are; stores that change the steps
 */
export function clockOver({ manifest, selection }, time, steps, { checkpoint, others = [] } = {}) {
  const stepsOf = (episode) => steps(manifest, selection.now, episode);
  const timeOf = (now) => {
    const episode = (time.episode && now[time.episode]) ?? 0;
    const window = (time.window && now[time.window]) ?? steps(manifest, now, episode);
    return { episode, frame: now[time.frame], window };
  };
  const patchOf = (patch) => Object.entries(patch).filter(([key, value]) => key in time && value !== undefined);
  return clockOf({
    checkpoint,
    steps: stepsOf,
    subscribe: derived([selection, ...others], ([now]) => timeOf(now)).subscribe,
    read: () => timeOf(selection.now),
    change: (patch, kind) =>
      selection.change(Object.fromEntries(patchOf(patch).map(([key, value]) => [time[key], value])), kind),
  });
}

/** Give a page a clock, and a player of it. */
export function useClock(page, clock) {
  page.clock = clock;
  page.player = createPlayer(clock, Number(page.manifest.view.video_speed) || 12);
}
