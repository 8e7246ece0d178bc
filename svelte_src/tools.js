// What shows each of the panels that open at the side.
import Help from "./kit/shell/Help.svelte";
import Notes from "./kit/shell/Notes.svelte";
import Export from "./pages/agent/Export.svelte";
import FeatureViewer from "./pages/agent/FeatureViewer.svelte";
import Find from "./pages/agent/Find.svelte";
import Trust from "./pages/agent/Trust.svelte";

export const COMPONENTS = {
  feature: FeatureViewer,
  find: Find,
  notes: Notes,
  trust: Trust,
  export: Export,
  help: Help,
};
