// The vitrine commands that print the numbers of the figures.
import { index } from "./data";
import { after, ids } from "./state";

const model = index.model_argument && `${index.model_argument} `;
const quoted = (x: string) => `'${x.replaceAll("'", "'\\''")}'`;
/// MODEL, the options that its values depend on, and ids.
const reading = (ids: number[], option = "--ids") => `${model}${index.run_options}${option} ${ids.join(",")} `;
/// The changes of the run that is shown.
const changes = () => (after.value && index.after ? index.after.set : []);
/// The texts of a model with labels.
const texts = () => `${model}${index.run_options}${index.label?.text ?? ""} `;
export const labels = () => `vitrine classify ${texts()}--json`;
export const attribution = (options: string) => `vitrine attribute ${texts()}--class ${index.label?.class ?? ""} ${options}--json`;
const traced = (ids: number[], set: string[], globs: string[]) =>
  `vitrine trace ${index.label ? texts() : reading(ids)}${set.map((w) => `--set ${quoted(w)} `).join("")}${globs.map((g) => `--sites ${quoted(g)} `).join("")}--out values.safetensors`;

export const trace = (...globs: string[]) => traced(ids(), changes(), globs);
/// A command that cannot change values; for a run with changes, the values from which its numbers follow.
export const of = (name: string, options: string, ...globs: string[]) => (changes().length > 0 ? trace(...globs) : `vitrine ${name} ${reading(ids())}${options}--json`);
export const predict = () => of("predict", "", "hook_logits");
/// What the changed run is compared with.
export const compared = () => (index.after?.set.length ? traced(index.ids, index.after.set, []) : `vitrine predict ${reading(index.after?.ids ?? index.ids)}--json`);
export const patch = (token: number) => `vitrine patch ${reading(index.ids, "--clean-ids")}--corrupted-ids ${index.after?.ids.join(",") ?? "…"} --token '#${token}' --json`;
export const generate = (n: number, options: string) => (changes().length > 0 ? trace("hook_logits") : `vitrine generate ${reading(ids().slice(0, n))}--max-tokens 1 ${options} --json`);
export const features = (n: number) => `vitrine features ${reading(index.ids)}${index.sae_options}--top ${n} --json`;
export const dashboard = (site: string, feature: number) => `vitrine features show ${index.features_index} ${feature} --site ${site}`;
export const info = `vitrine info ${model}--length ${index.ids.length} --json`;
export const embed = (words: Iterable<number>) => `vitrine embed ${index.model_path} ${[...words].map((id) => `'#${id}'`).join(" ")} --json`;
export const spell = (cell: string) => `vitrine look ${reading(index.ids)}--cell ${quoted(cell)} --out report.html`;
