// The registry of panels that pages of every kind have, one line each: NAME is what slots, sections and addresses
// (`?embed=1&panel=NAME`) call it. A panel is a component whose module exports `about`: {title, text}, a sentence or two that say
// how to read it, and `aside: true` if it has no frame of its own. `pages/KIND/panels.js` has those of one kind of page.
export * as export from "./kit/export/Export.svelte";
export * as help from "./kit/shell/Help.svelte";
export * as notes from "./kit/shell/Notes.svelte";

// Generic panels, which draw the sections of any analysis that name them; they get the section's data as properties.
export * as bars from "./kit/graph/Bars.svelte";
export * as images from "./kit/image/Images.svelte";
export * as lines from "./kit/graph/Lines.svelte";
export * as maps from "./kit/image/Maps.svelte";
export * as scatter from "./kit/scatter/Scatter.svelte";
export * as table from "./kit/table/Table.svelte";
