// lint.mjs [--prettier] [--fix] PATH...: prints problems as JSON, one array of {file, line, column, rule, message, error}.
import { readFileSync, writeFileSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { load } from "./toolchain.mjs";
import config from "./eslint.config.mjs";

const flags = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const paths = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const fix = flags.includes("--fix");

const files = paths.flatMap(function walk(entry) {
  if (!statSync(entry).isDirectory()) return [path.resolve(entry)];
  return readdirSync(entry)
    .filter((name) => name !== "node_modules" && !name.startsWith("."))
    .sort()
    .flatMap((name) => walk(path.join(entry, name)))
    .filter((name) => /\.(svelte|m?js)$/.test(name));
});
// the flat config only matches files under its base path
const base = files.map((file) => path.dirname(file)).reduce(commonFolder, path.dirname(files[0] ?? "./none"));

function commonFolder(a, b) {
  let folder = a;
  while (path.relative(folder, b).startsWith("..")) folder = path.dirname(folder);
  return folder;
}

async function lint() {
  const { ESLint } = await load("eslint");
  const eslint = new ESLint({ cwd: base, overrideConfigFile: true, overrideConfig: config, fix });
  const results = await eslint.lintFiles(files);
  if (fix) await ESLint.outputFixes(results);
  return results.flatMap(({ filePath, messages }) =>
    messages.map(({ line, column, ruleId, message, severity }) => ({
      file: filePath,
      line: line ?? 1,
      column: column ?? 1,
      rule: ruleId,
      message,
      error: severity === 2,
    })),
  );
}

async function style() {
  const prettier = await load("prettier");
  const options = { printWidth: 120, plugins: [await load("prettier-plugin-svelte")] };
  const problems = [];
  for (const file of files) {
    const source = readFileSync(file, "utf8");
    const formatted = await prettier.format(source, { ...options, filepath: file });
    if (formatted === source) continue;
    if (fix) writeFileSync(file, formatted);
    else problems.push({ file, line: 1, column: 1, rule: "prettier", message: "is not formatted", error: true });
  }
  return problems;
}

const problems = [...(flags.includes("--prettier") ? await style() : []), ...(await lint())];
process.stdout.write(JSON.stringify(problems));
