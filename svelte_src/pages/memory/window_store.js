// The windows of the page, which grow where the agent behind the page explains further steps.
import { writable } from "svelte/store";
import { createQuestions } from "../../data/ask.js";
import { showWindow } from "./windows.js";

/** The section of the panel that a page has which is served with its agent. */
const LIVE = "what_if";

/**
 * @param {import("../../types").Page} page
 * @returns {{subscribe: Function, explain: ((trajectory: number, frame: number) => Promise<void>) | null}} a store of the
 *   section's windows and targets; `explain` has the network explain a step, and goes to its window: null without a network
 */
export function createWindows(page) {
  const { manifest } = page;
  const { memory } = manifest;
  const { set, subscribe } = writable(memory.windows ?? { windows: [], targets: [] });
  const isLive = memory.windows && manifest.sections.some(({ kind, data }) => kind === LIVE && !data.network);
  const ask = createQuestions("windows");

  async function explain(trajectory, frame) {
    const answer = await ask("window", { trajectory, step: frame });
    if (!answer) return;
    const { windows, targets } = memory.windows;
    const known = windows.findIndex(({ chunk }) => chunk === answer.window.chunk);
    if (known < 0) {
      embed(answer.window.chunk, answer.chunk);
      const others = answer.targets.filter(({ id }) => !targets.some((one) => one.id === id));
      memory.windows = {
        ...memory.windows,
        windows: [...windows, answer.window],
        targets: [...targets, ...others],
      };
      set(memory.windows);
    }
    showWindow(page, known < 0 ? windows.length : known);
  }

  return { subscribe, explain: isLive ? explain : null };
}

/** Put a chunk into the document, where the page finds the chunks of a single file. */
function embed(name, { header, data }) {
  const element = document.createElement("script");
  element.type = "text/plain";
  element.dataset.chunk = name;
  element.textContent = `${header}\n${data}`;
  document.body.append(element);
}
