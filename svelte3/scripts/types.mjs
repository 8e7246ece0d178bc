// types.mjs TSCONFIG...: prints the problems that TypeScript finds, one array as of lint.mjs.
import path from "node:path";
import { directory, load } from "./toolchain.mjs";

const ts = await load("typescript");
const svelte = path.join(directory, "node_modules/svelte/types/runtime");

function check(config) {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (problem) => found.push(problem) };
  const found = [];
  const project = ts.getParsedCommandLineOfConfigFile(config, { noEmit: true }, host);
  if (!project) return found;
  // the sources lie elsewhere, so they would not find the types of Svelte
  const paths = { svelte: [path.join(svelte, "index.d.ts")], "svelte/*": [path.join(svelte, "*")] };
  const program = ts.createProgram(project.fileNames, { ...project.options, paths });
  return [...project.errors, ...ts.getPreEmitDiagnostics(program)];
}

function describe({ file, start, code, messageText }, config) {
  const { line, character } = file ? file.getLineAndCharacterOfPosition(start) : { line: 0, character: 0 };
  return {
    file: file ? path.resolve(file.fileName) : config,
    line: line + 1,
    column: character + 1,
    rule: `TS${code}`,
    message: ts.flattenDiagnosticMessageText(messageText, "\n"),
    error: true,
  };
}

const configs = process.argv.slice(2).map((config) => path.resolve(config));
process.stdout.write(JSON.stringify(configs.flatMap((config) => check(config).map((one) => describe(one, config)))));
