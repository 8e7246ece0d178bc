// What shows each of the panels that open at the side.
import Export from "./Export.svelte";
import FeatureViewer from "./FeatureViewer.svelte";
import Find from "./Find.svelte";
import Help from "./Help.svelte";
import Notes from "./Notes.svelte";
import Trust from "./Trust.svelte";

export const COMPONENTS = {
  feature: FeatureViewer,
  find: Find,
  notes: Notes,
  trust: Trust,
  export: Export,
  help: Help,
};
