// The registry of kinds of page, one line each, by `manifest.kind`.
export { agent } from "./agent/index.js";
export { check } from "./check/index.js";
export { gallery } from "./gallery/index.js";
export { memory } from "./memory/index.js";
export { recordings } from "./recordings/index.js";
export { training } from "./training/index.js";
