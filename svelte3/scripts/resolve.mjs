// node --import resolve.mjs: files find the toolchain's packages, as the compiler does.
import path from "node:path";
import { register } from "node:module";
import { pathToFileURL } from "node:url";
import { isMainThread } from "node:worker_threads";

if (isMainThread) register(import.meta.url); // Node.js loads this file a second time, in the thread that resolves imports

const toolchain = pathToFileURL(path.join(process.env.SVELTE3_TOOLCHAIN, "package.json")).href;

export function resolve(specifier, context, next) {
  const packageName = /^(?!node:)[\w@]/.test(specifier) && !specifier.includes("://");
  return next(specifier, packageName ? { ...context, parentURL: toolchain } : context);
}
