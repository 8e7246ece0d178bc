// The registry of panels, one line each: NAME is what layouts, sections and addresses (`?embed=1&panel=NAME`) call it. A
// panel is a component whose module exports `about`: {title, text}, a sentence or two that say how to read it, and
// `aside: true` if it has no frame of its own.
export * as attribution from "./pages/agent/Attribution.svelte";
export * as behavior from "./pages/agent/Behavior.svelte";
export * as bookmarks from "./pages/agent/Bookmarks.svelte";
export * as feature from "./pages/agent/FeatureViewer.svelte";
export * as features from "./pages/agent/FeatureTable.svelte";
export * as find from "./pages/agent/Find.svelte";
export * as export from "./kit/export/Export.svelte";
export * as help from "./kit/shell/Help.svelte";
export * as legend from "./pages/agent/Legend.svelte";
export * as notes from "./kit/shell/Notes.svelte";
export * as outputs from "./pages/agent/Outputs.svelte";
export * as state_map from "./pages/agent/StateMapPanel.svelte";
export * as timeline from "./pages/agent/Timeline.svelte";
export * as trajectories from "./pages/agent/Trajectories.svelte";
export * as trust from "./pages/agent/Trust.svelte";

// Of a page of training.
export * as checkpoints from "./pages/training/Checkpoints.svelte";
export * as play from "./pages/training/Play.svelte";
export * as curve from "./pages/training/Curve.svelte";
export * as returns from "./pages/training/Returns.svelte";
export * as films from "./pages/training/Films.svelte";
export * as regions from "./pages/training/Regions.svelte";
export * as steps from "./pages/training/Steps.svelte";
export * as reference from "./pages/training/Reference.svelte";
export * as numbers from "./pages/training/Numbers.svelte";

// Of a page of recordings.
export * as episodes from "./pages/recordings/Episodes.svelte";
export * as player from "./pages/recordings/Player.svelte";
export * as states from "./pages/recordings/States.svelte";

// Generic panels, which draw the sections of any analysis that name them; they get the section's data as properties.
export * as bars from "./kit/graph/Bars.svelte";
export * as images from "./kit/image/Images.svelte";
export * as lines from "./kit/graph/Lines.svelte";
export * as maps from "./kit/image/Maps.svelte";
export * as scatter from "./kit/scatter/Scatter.svelte";
export * as table from "./kit/table/Table.svelte";
