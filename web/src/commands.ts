// The vitrine commands that print the numbers of the figures.
import { index } from "./data";

const model = index.model_argument || "models/default";
export const predict = `vitrine predict ${index.arguments} --json`;
export const trace = (...globs: string[]) => `vitrine trace ${index.arguments} ${globs.map((g) => `--sites '${g}' `).join("")}--out values.safetensors`;
export const info = `vitrine info ${index.model_argument ? index.model_argument + " " : ""}--length ${index.ids.length} --json`;
export const embed = (ids: Iterable<number>) => `vitrine embed ${model} ${[...ids].map((id) => `'#${id}'`).join(" ")} --json`;
