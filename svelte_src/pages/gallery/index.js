// An index of pages; two pages of the same recording side by side, with one clock.
import { definePage } from "../../kit/page/page.js";
import { combine, FIELDS } from "./fields.js";
import Gallery from "./Gallery.svelte";

export const gallery = definePage({
  fields: FIELDS,
  combine,
  time: { episode: "trajectory", frame: "frame" },
  /** Those of the page on the left. */
  steps: ({ pages }, { left }, episode) => pages[left]?.steps[episode] ?? 1,
  component: Gallery,
  extend: (page) => (page.hasPanel = () => false),
});
