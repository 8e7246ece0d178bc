// A store that the browser keeps. All pages opened from files share one storage, so keys hold the page's id.
import { writable } from "svelte/store";

/**
 * @template T
 * @param {string} key
 * @param {T} initial
 * @param {(value: any) => T} mend what was kept, or anything else that stood there, as a value that can be shown
 * @returns a store; its `lost` is a store that holds true while the browser does not keep the value
 */
export function createKept(key, initial, mend) {
  const nothing = JSON.stringify(initial); // Svelte changes the value itself, so what it began as is kept as text
  const store = writable(read(key, initial, mend));
  const lost = writable(false);
  store.subscribe((value) => lost.set(!write(key, JSON.stringify(value), nothing)));
  return { ...store, lost: { subscribe: lost.subscribe } };
}

function read(key, initial, mend) {
  try {
    const text = localStorage.getItem(key);
    if (text !== null) return mend(JSON.parse(text));
  } catch {
    // storage may be forbidden, or hold something else
  }
  return structuredClone(initial);
}

/** Whether the browser keeps the text, or has nothing to keep. */
function write(key, text, nothing) {
  try {
    if (text === nothing) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
    return true;
  } catch {
    return text === nothing; // forbidden or full: the page works without
  }
}
