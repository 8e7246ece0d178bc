// A store that the browser keeps. All pages opened from files share one storage, so keys hold the page's id.
import { writable } from "svelte/store";

export function createKept(key, initial) {
  const store = writable(read(key, initial));
  store.subscribe((value) => write(key, value, initial));
  return store;
}

function read(key, initial) {
  try {
    const value = JSON.parse(localStorage.getItem(key));
    if (Array.isArray(initial)) return Array.isArray(value) ? value : initial;
    return { ...initial, ...value };
  } catch {
    return initial; // storage may be forbidden, or hold something else
  }
}

function write(key, value, initial) {
  try {
    if (JSON.stringify(value) === JSON.stringify(initial)) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // forbidden or full: the page works without
  }
}
