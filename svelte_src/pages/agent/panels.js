// The panels of the page of an agent, one line each.
export * as attribution from "./Attribution.svelte";
export * as behavior from "./Behavior.svelte";
export * as bookmarks from "./Bookmarks.svelte";
export * as feature from "./FeatureViewer.svelte";
export * as features from "./FeatureTable.svelte";
export * as find from "./Find.svelte";
export * as inputs from "./Inputs.svelte";
export * as legend from "./Legend.svelte";
export * as objects from "./Objects.svelte";
export * as outputs from "./Outputs.svelte";
export * as state_map from "./StateMapPanel.svelte";
export * as timeline from "./Timeline.svelte";
export * as trajectories from "./Trajectories.svelte";
export * as trust from "./Trust.svelte";
