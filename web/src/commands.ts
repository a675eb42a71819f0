// The vitrine commands that print the numbers of the figures.
import { index } from "./data";
import { after, ids } from "./state";

const model = index.model_argument || "models/default";
/// MODEL and the ids of the run that is shown.
export const text = () => (after.value ? `${index.model_argument ? index.model_argument + " " : ""}--ids ${ids().join(",")}` : index.arguments);
const quotedShell = (x: string) => `'${x.replaceAll("'", "'\\''")}'`;
const changes = () => (after.value && index.after ? index.after.set.map((w) => `--set ${quotedShell(w)} `).join("") : "");

export const trace = (...globs: string[]) => `vitrine trace ${text()} ${changes()}${globs.map((g) => `--sites '${g}' `).join("")}--out values.safetensors`;
/// A command that cannot change values; for a run with changes, the values from which its numbers follow.
export const of = (name: string, options: string, ...globs: string[]) => (changes() ? trace(...globs) : `vitrine ${name} ${text()} ${options}--json`);
export const predict = () => of("predict", "", "hook_logits");
export const info = `vitrine info ${index.model_argument ? index.model_argument + " " : ""}--length ${index.ids.length} --json`;
export const embed = (words: Iterable<number>) => `vitrine embed ${model} ${[...words].map((id) => `'#${id}'`).join(" ")} --json`;
export const spell = (cell: string) => `vitrine look ${index.arguments} --cell '${cell}' --out report.html`;
