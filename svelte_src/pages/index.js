// The registry of kinds of page, one line each, by `manifest.kind`.
export * as agent from "./agent/index.js";
export * as check from "./check/index.js";
export * as gallery from "./gallery/index.js";
export * as memory from "./memory/index.js";
export * as recordings from "./recordings/index.js";
export * as training from "./training/index.js";
