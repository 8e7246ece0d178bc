// The panels of the page of recordings, one line each.
import * as analysesPanel from "./Analyses.svelte";
import Late from "./Late.svelte";
import * as returnsPanel from "./Returns.svelte";
import * as statesPanel from "./States.svelte";
import * as updatesPanel from "./Updates.svelte";

export * as episodes from "./Episodes.svelte";
export * as find from "./Find.svelte";
export * as play from "./Play.svelte";
export * as player from "./Player.svelte";
export * as trust from "./Trust.svelte";
export const analyses = late(analysesPanel);
export const returns = late(returnsPanel);
export const states = late(statesPanel);
export const updates = late(updatesPanel);

/** The same panel, drawn once the first episode is shown. */
function late({ about, default: panel }) {
  const options = (given) => ({ ...given, props: { panel } });
  return {
    about,
    default: class extends Late {
      constructor(given) {
        super(options(given));
      }
    },
  };
}
