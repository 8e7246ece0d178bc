// The panels of the page of a training, one line each.
export * as checkpoints from "./Checkpoints.svelte";
export * as curve from "./Curve.svelte";
export * as films from "./Films.svelte";
export * as numbers from "./Numbers.svelte";
export * as play from "./Play.svelte";
export * as reference from "./Reference.svelte";
export * as regions from "./Regions.svelte";
export * as returns from "./Returns.svelte";
export * as steps from "./Steps.svelte";
export * as trust from "./Trust.svelte";
export * as updates from "./Updates.svelte";
