// The rules for Svelte components and the modules beside them.
import { load } from "./toolchain.mjs";

const plugin = await load("eslint-plugin-svelte");

export const rules = {
  "no-undef": "error",
  "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^\\$\\$" }],
  "no-var": "error",
  "prefer-const": "error",
  eqeqeq: ["error", "always", { null: "ignore" }],
  "no-eval": "error",
  "no-implied-eval": "error",
  "no-shadow-restricted-names": "error",
  "no-unreachable": "error",
  "no-dupe-keys": "error",
  "no-fallthrough": "error",
};

const names = (list, value = "readonly") => Object.fromEntries(list.split(" ").map((name) => [name, value]));

export const globals = names(
  "window document CSS console location history navigator localStorage performance setTimeout clearTimeout " +
    "requestAnimationFrame cancelAnimationFrame requestIdleCallback queueMicrotask atob btoa Blob URL URLSearchParams File FileReader " +
    "Image ImageData OffscreenCanvas createImageBitmap DecompressionStream CompressionStream Response Event " +
    "CustomEvent KeyboardEvent ResizeObserver IntersectionObserver matchMedia getComputedStyle HTMLElement " +
    "TextEncoder TextDecoder crypto structuredClone globalThis process Node Worker ReadableStream devicePixelRatio",
);

export default [
  { files: ["**/*.js", "**/*.mjs"], languageOptions: { globals, ecmaVersion: 2022, sourceType: "module" }, rules },
  ...plugin.configs["flat/recommended"],
  { files: ["**/*.svelte"], languageOptions: { globals }, rules: { ...rules, "prefer-const": "off" } },
];
