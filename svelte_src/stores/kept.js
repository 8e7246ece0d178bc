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
  const store = writable(read(key, initial, mend));
  const lost = writable(false);
  store.subscribe((value) => lost.set(!write(key, value, initial)));
  return { ...store, lost: { subscribe: lost.subscribe } };
}

function read(key, initial, mend) {
  try {
    const text = localStorage.getItem(key);
    return text === null ? initial : mend(JSON.parse(text));
  } catch {
    return initial; // storage may be forbidden, or hold something else
  }
}

function write(key, value, initial) {
  try {
    if (JSON.stringify(value) === JSON.stringify(initial)) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return JSON.stringify(value) === JSON.stringify(initial); // forbidden or full: the page works without
  }
}
