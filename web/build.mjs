// Bundles src/ into dist/, which is committed: building vitrine needs no Node.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync, readdirSync, existsSync } from "node:fs";
import { build } from "esbuild";

const common = { bundle: true, minify: true, charset: "ascii", legalComments: "none", target: "es2022", metafile: true };
const result = await build({ ...common, entryPoints: ["src/main.tsx"], outfile: "dist/page.js", format: "iife", jsx: "automatic", jsxImportSource: "preact" });
await build({ ...common, entryPoints: ["src/page.css"], outfile: "dist/page.css" });
const script = readFileSync("dist/page.js").subarray(0);
const text = script.toString("utf8").trimEnd();
if (text.includes(')vitrine"')) throw new Error("the script has the end of the literal that embeds it");
writeFileSync("dist/page.js", text);
writeFileSync("dist/page.js.sha256", createHash("sha256").update(text).digest("base64") + "\n");

// The licenses of the packages in the bundle.
const packages = new Set();
for (const path of Object.keys(result.metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
  if (found) packages.add(found[1]);
}
let notices = "The page of `vitrine look` contains these packages, under their licenses.\n";
for (const name of [...packages].sort()) {
  const folder = `node_modules/${name}`;
  const version = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")).version;
  const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
  notices += `\n${"=".repeat(80)}\n${name} ${version}\n\n${file && existsSync(`${folder}/${file}`) ? readFileSync(`${folder}/${file}`, "utf8").trim() : "(no license file)"}\n`;
}
writeFileSync("dist/NOTICES.txt", notices);
console.log(`dist/page.js: ${Math.round(text.length / 1024)} KiB; ${[...packages].sort().join(", ")}`);
