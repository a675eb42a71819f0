// The one interface to a run's data. Its source is the page itself: blocks of arrays, decompressed when they are needed.

export interface Entry {
  name: string;
  shape: number[];
  type: "f32" | "f64" | "i32" | "u8";
  block: string;
  offset: number;
  exact: boolean;
  labels?: string[];
}

export interface Values {
  shape: number[];
  data: Float32Array | Float64Array;
  exact: boolean;
  labels?: string[];
}

export interface Layer {
  mixer: string;
  heads: number;
  kv_heads: number;
  head_dim: number;
  window: number | null;
  softcap: number | null;
  rope: boolean;
  parallel: boolean;
  gated: boolean;
  dense: boolean;
}

export interface Flow {
  name: string;
  shape: string;
  in_block: boolean;
  meaning: string;
}

export interface Part {
  what: string;
  bytes: number;
  exact: boolean;
  option: string;
}

/// A value with its formula and operands. The operands' values are the array `cell:` + name, group after group.
export interface CellAbout {
  name: string;
  site: string;
  value: number;
  result?: number;
  /// Its number in `formulas`.
  formula?: number;
  text?: string;
  file?: string;
  op?: string;
  groups?: { of: string; first: number; step: number; n: number; shape: number[] }[];
  parents?: string[];
}

/// An option of the sampler.
export interface SamplingOption {
  name: string;
  default: number;
  lowest: number;
  /// The lowest number is not allowed itself.
  is_above: boolean;
  highest: number | null;
  is_whole: boolean;
  /// It is named only if it differs from the default.
  is_rare: boolean;
}

export interface Index {
  cells: CellAbout[];
  /// MathML.
  formulas: string[];
  model: string;
  description: string;
  params: number;
  bytes: number;
  /// Products with quantized weights read their input rounded to 8 bits.
  products: "int8" | "bf16" | "f32";
  has_adapter: boolean;
  config: [string, string][];
  groups: { layers: number[]; flow: Flow[]; config: [string, string][] }[];
  /// As an argument of a command line.
  model_path: string;
  /// The same, but empty for the default model.
  model_argument: string;
  /// The options that values depend on, such as --adapter.
  run_options: string;
  /// --sae and --sae-skip.
  sae_options: string;
  /// The folder of --features-index as an argument; empty: none.
  features_index: string;
  ids: number[];
  /// The changed run, whose arrays have names that begin with `after:`.
  after: { ids: number[]; set: string[]; predicted: number[] } | null;
  /// The dictionaries whose features are shown: before the names of their arrays is `values`.
  /// `corpus_tokens` is that of their dashboards, null if there are none.
  saes: { values: string; name: string | null; site: string; key: string; architecture: string; d_sae: number; active: number[]; corpus_tokens: number | null }[];
  analogy: { id: number; factor: number }[];
  run: string | null;
  position: number;
  /// The most likely token after every prefix.
  predicted: number[];
  /// Of a model with labels: the one that the page explains, the texts as arguments, and the text of each token.
  label: { name: string; text: string; class: string; texts: number[]; baseline: number; steps: number } | null;
  pieces: Record<string, string>;
  layers: Layer[];
  vocab_size: number;
  d_model: number;
  max_seq_len: number;
  /// The layer whose MLP is drawn, and the site of what it reads.
  mlp: { layer: number; input: string } | null;
  seed: number;
  sampling: Record<string, number>;
  sampling_options: SamplingOption[];
  /// The options of the filters, in their order.
  filters: string[];
  contains: Part[];
  left_out: Part[];
  values: Entry[];
}

export interface Source {
  index: Index;
  /// Names of the blocks that are read at once: those of the figures at the top.
  first: string[];
  block(name: string): Promise<ArrayBuffer>;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/// Blocks that the page contains. This program begins while the browser still reads those after it.
export function embedded(): Source {
  const complete = document.readyState === "loading" ? new Promise((done) => addEventListener("DOMContentLoaded", done)) : null;
  const early = new Set(document.querySelectorAll("script[data-block]"));
  const index = JSON.parse(document.getElementById("index")!.textContent!) as Index;
  return {
    index,
    first: [...early].map((block) => (block as HTMLElement).dataset.block!),
    async block(name) {
      const find = () => document.querySelector(`script[data-block="${CSS.escape(name)}"]`)!;
      if (!early.has(find())) await complete;
      const stream = new Blob([fromBase64(find().textContent!)]).stream().pipeThrough(new DecompressionStream("deflate"));
      return new Response(stream).arrayBuffer();
    },
  };
}

export const source = embedded();
export const index = source.index;
const entries = new Map(index.values.map((e) => [e.name, e]));
const blocks = new Map<string, Promise<ArrayBuffer>>();
const arrays = new Map<string, Values>();

export const has = (name: string) => entries.has(name);
export const names = () => index.values.map(({ name, shape, exact }) => ({ name, shape, exact }));

const product = (shape: number[]) => shape.reduce((a, b) => a * b, 1);

const ofLevel = Float32Array.from({ length: 256 }, (_, x) => (x / 255) ** 2);

function decode(e: Entry, buffer: ArrayBuffer): Values {
  const n = product(e.shape);
  let data: Float32Array | Float64Array;
  if (e.type === "f32") data = new Float32Array(buffer, e.offset, n);
  else if (e.type === "f64") data = new Float64Array(buffer, e.offset, n);
  else if (e.type === "i32") data = Float64Array.from(new Int32Array(buffer, e.offset, n));
  else {
    const levels = new Uint8Array(buffer, e.offset, n);
    data = new Float32Array(n);
    for (let i = 0; i < n; ++i) data[i] = ofLevel[levels[i]];
  }
  return { shape: e.shape, data, exact: e.exact, ...(e.labels ? { labels: e.labels } : {}) };
}

const options: [RegExp, string][] = [[/^(after:|difference\.)/, "--set or --corrupted"], [/^patch\./, "--corrupted"], [/^run\.(?!\d)/, "--run"], [/^analogy\./, "--analogy"], [/^features\.\d+\.dashboards/, "--features-index"], [/^features\./, "--sae"], [/^(ceilings|roofline)\./, "--ceilings"], [/^cell:/, "--cell"]];
/// The option of `vitrine look` that adds an array.
function optionFor(name: string): string | undefined {
  const known = options.find(([form]) => form.test(name))?.[1];
  if (known) return known;
  const part = /^run\.\d/.test(name) ? "all attention maps at" : /\[(:,)?\d+\]$/.test(name) ? "every site at the followed" : "every site at all";
  return index.left_out.find((p) => p.what.startsWith(part))?.option;
}

export async function values(name: string): Promise<Values> {
  const known = arrays.get(name);
  if (known) return known;
  const e = entries.get(name);
  if (!e) {
    const option = optionFor(name);
    throw new Error(`${name} is not in this file${option ? `; ${option} adds it, if the model has it` : ""}`);
  }
  if (!blocks.has(e.block)) blocks.set(e.block, source.block(e.block));
  const found = decode(e, await blocks.get(e.block)!);
  arrays.set(name, found);
  return found;
}

/// All arrays of a block that has been read.
export async function readBlock(of: string) {
  const first = entries.get(of);
  if (first) await Promise.all(index.values.filter((e) => e.block === first.block).map((e) => values(e.name)));
}

/// Fulfilled once the arrays of the first blocks have been read.
export const firstRead = Promise.all(index.values.filter((e) => source.first.includes(e.block)).map((e) => values(e.name)));

/// An array that has been read already.
export const read = (name: string): Values | undefined => arrays.get(name);
