// Imports a package from the toolchain's directory: these scripts lie elsewhere, so a plain import would not find it.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

export const directory = process.env.SVELTE3_TOOLCHAIN;
export const require = createRequire(path.join(directory, "package.json"));

export async function load(name) {
  const module = await import(pathToFileURL(require.resolve(name)).href);
  return module.default ?? module;
}
