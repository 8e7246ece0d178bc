// A kind of page of another package, which the manifest describes (docs/page-format.md, "Kinds of page"): the panels of an
// agent's page and generic ones in slots, and fields of its own, which the panel `controls` and custom panels change.
import { TYPES } from "../../kit/page/fields.js";
import { definePage } from "../../kit/page/page.js";
import { AGENT } from "../agent/index.js";
import * as controls from "./Controls.svelte";

const LABELS = { navigation: "Navigation", tabs: "Tabs", skip: "Skip to the content" };
const ASIDE = ["notes", "trust", "help"];

/** @param {object} page the manifest's `page` */
export function describedPage({ slots, labels = {}, aliases = {}, fields = [], keys = [], tour = [] }) {
  const layout = { navigation: [], main: [], legend: [], tabs: [], aside: ASIDE, ...slots };
  const names = Object.values(layout).flat();
  const tab = { name: "tab", type: "choice", options: layout.tabs, place: true };
  return definePage({
    ...AGENT,
    fields: [...AGENT.fields, ...(layout.tabs.length ? [tab] : []), ...fields],
    panels: { ...AGENT.panels, controls },
    layout,
    labels: { ...LABELS, ...labels },
    aliases,
    keys: [...AGENT.keys, ...keys],
    tour,
    problemWith(manifest) {
      const unknown = fields.find(({ type }) => !Object.hasOwn(TYPES, type));
      if (unknown)
        return `This version does not know the type “${unknown.type}” of the page's field “${unknown.name}”.`;
      return AGENT.problemWith(manifest);
    },
    extend(page) {
      AGENT.extend(page);
      const { hasPanel } = page;
      page.hasPanel = (name) => names.includes(name) && hasPanel(name);
    },
  });
}
