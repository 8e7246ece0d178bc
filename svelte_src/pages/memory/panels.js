// The panels of the page of what an agent remembers, one line each.
export * as behaviours from "./Behaviours.svelte";
export * as causes from "./Causes.svelte";
export * as chooser from "./Chooser.svelte";
export * as components from "./Components.svelte";
export * as interventions from "./Interventions.svelte";
export * as map from "./Map.svelte";
export * as memory_matrix from "./Dependence.svelte";
export * as now from "./Now.svelte";
export * as play from "./Play.svelte";
export * as player from "./Player.svelte";
export * as remembering from "./Remembering.svelte";
export * as simulator from "./Simulator.svelte";
export * as through_time from "./ThroughTime.svelte";
export * as trust from "./Trust.svelte";
