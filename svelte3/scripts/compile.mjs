// Reads {"input", "name"} from stdin; prints {"code", "warnings"} or {"error"} as JSON.
import { readFileSync } from "node:fs";
import Module from "node:module";
import path from "node:path";
import { directory, load, require } from "./toolchain.mjs";

const { input, name } = JSON.parse(readFileSync(0, "utf8"));
const compiler = require("svelte/compiler"); // the plugin calls this object's `compile`
const { rollup } = await load("@rollup/wasm-node");
const svelte = await load("rollup-plugin-svelte");
const { nodeResolve } = await load("@rollup/plugin-node-resolve");
const { minify } = await load("terser");

const root = path.dirname(input);
let warnings = [];

function describe(problem) {
  const file = problem.filename ?? problem.loc?.file ?? problem.id;
  const start = problem.start ?? problem.loc;
  return {
    message: String(problem.message ?? problem),
    code: problem.code ?? null,
    file: file ? path.relative(root, file) : null,
    line: start?.line ?? null,
    column: start?.column ?? null,
    frame: problem.frame ?? null,
  };
}

const styles = new Map();

/** A class for the elements that a component's styles are for: a part of their hash, which no other styles have. */
function shortHash(hash, css) {
  const name = `s${hash.slice(0, 4)}`;
  if (styles.has(name) && styles.get(name) !== css) return `s${hash}`;
  styles.set(name, css);
  return name;
}

/** Svelte's runtime reads one property more than 500 times in a large script; terser does not shorten properties. */
function withShortNames(code) {
  const [start, destructured] = ["fragment: null", "const { fragment, after_update }"];
  if (!code.includes(start) || !code.includes(destructured)) return code;
  return code
    .replaceAll("$$.fragment", "$$$$.f")
    .replace(start, "f: null")
    .replace(destructured, "const { f: fragment, after_update }");
}

/** Components, which differ in what they pass to Svelte's `init`, without a constructor for each: a function makes all of them. */
function withOneConstructor(code) {
  const base = "class SvelteComponent {";
  const written =
    /(^|= )class (\S+) extends SvelteComponent \{\s*constructor\(options\) \{\s*super\(\);\s*init\(\s*this,\s*options,([^;]*)\);\s*\}\s*\}/gm;
  // Svelte changes the list `dirty`: each component has its own.
  const make = `function $$component(instance, fragment, equal, props, styles, dirty = [-1]) {
return class extends SvelteComponent {
constructor(options) {
super();
init(this, options, instance, fragment, equal, props, styles, [...dirty]);
}
};
}
`;
  return code
    .replace(written, (_, before, name, parts) => `${before || `const ${name} = `}$$component(${parts})${before ? "" : ";"}`)
    .replace(base, () => make + base);
}

/**
 * The compiler's function `compile`, without the code by which components wait for transitions inside others: Svelte writes it
 * for all components, since it sees one at a time.
 */
function compileWithoutTransitions() {
  const file = require.resolve("svelte/compiler");
  const code = readFileSync(file, "utf8")
    .replace(/block\.add_outro\(\);(\s*\}\s*set_slot\()/, "$1") // of a component
    .replace(/block\.add_intro\(\);\s*block\.add_outro\(\);/, "") // of a slot
    .replace("block.has_outro_method = true;", ""); // of a component's fragment
  const module = new Module(file);
  module._compile(code, file);
  return module.exports.compile;
}

const TRANSITION = /\bcreate_(in|out|bidirectional)_transition\b/;

/** The script; smaller if none of its components has a transition. */
async function bundle() {
  const { compile } = compiler;
  const compileSmaller = compileWithoutTransitions();
  let transitions = false;
  compiler.compile = (...source) => {
    const compiled = compileSmaller(...source);
    transitions ||= TRANSITION.test(compiled.js.code);
    return compiled;
  };
  const code = await bundled();
  if (!transitions) return code;
  compiler.compile = compile;
  styles.clear();
  warnings = [];
  return bundled();
}

async function bundled() {
  const built = await rollup({
    input,
    plugins: [
      svelte({
        emitCss: false,
        compilerOptions: { dev: false, css: "injected", cssHash: ({ hash, css }) => shortHash(hash(css), css) },
        onwarn: (warning) => warnings.push(describe(warning)),
      }),
      nodeResolve({ browser: true, dedupe: ["svelte"], modulePaths: [path.join(directory, "node_modules")] }),
    ],
    onwarn: (warning) => {
      if (warning.code === "UNRESOLVED_IMPORT") throw warning;
      if (warning.code !== "CIRCULAR_DEPENDENCY" || !/node_modules/.test(warning.message))
        warnings.push(describe(warning));
    },
  });
  const { output } = await built.generate({ format: "iife", name, exports: "auto", indent: false, freeze: false });
  await built.close();
  return output[0].code;
}

async function minified(script) {
  const { code } = await minify(withOneConstructor(withShortNames(script)), {
    ecma: 2020,
    compress: { passes: 2, unsafe_arrows: true }, // nothing asks a function for its prototype
    format: { ascii_only: true, comments: false },
  });
  return code;
}

try {
  const code = await minified(await bundle());
  process.stdout.write(JSON.stringify({ code: `${code}\n`, warnings }));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: describe(error), warnings }));
}
