// What modules import from components.
declare module "*.svelte" {
  import type { SvelteComponent } from "svelte";
  const component: typeof SvelteComponent;
  export default component;
  /** Of a panel. */
  export const about: { title: string; text: string; aside?: boolean };
  /** Of kit/shell/Tabs.svelte. */
  export function showTab(page: import("./types").Page, name: string): Promise<void>;
}
