// The panels of the page of recordings, one line each.
export * as analyses from "./Analyses.svelte";
export * as episodes from "./Episodes.svelte";
export * as find from "./Find.svelte";
export * as play from "./Play.svelte";
export * as player from "./Player.svelte";
export * as returns from "./Returns.svelte";
export * as states from "./States.svelte";
export * as trust from "./Trust.svelte";
export * as updates from "./Updates.svelte";
