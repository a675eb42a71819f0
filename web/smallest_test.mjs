// Drives pages of the smallest models in Chromium: node smallest_test.mjs VITRINE
//
// No attribute and no text of any figure is NaN, infinite or undefined, whatever is selected; nothing is printed. And the
// page's sampler keeps what the program's keeps, with every filter.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, drawAll, finish, folder, open, run } from "./test_browser.mjs";

const tiny = { model_type: "vitrine", d_model: 4, n_layers: 1, n_heads: 1, d_ff: 4, vocab_size: 13, max_seq_len: 8 };
/// Each has its text, and what generation_config.json says.
const models = {
  "one token": [tiny, "5"],
  "two tokens": [tiny, "5 5"],
  "a vocabulary of two": [{ ...tiny, vocab_size: 2, d_ff: 1, max_seq_len: 2 }, "1 0"],
  "a vocabulary of one": [{ ...tiny, vocab_size: 1 }, "0 0 0"],
  "a width of two": [{ ...tiny, d_model: 2 }, "3 4 5"],
  "a width of one": [{ ...tiny, d_model: 1, positions: "none", norm: "layer" }, "3 4"],
  "a tied width of one": [{ ...tiny, d_model: 1, positions: "learned", tied: true }, "3 4"],
  "layer norms": [{ ...tiny, d_model: 2, norm: "layer", positions: "sinusoidal", gated: false, activation: "relu" }, "3"],
  experts: [{ ...tiny, n_experts: 2, top_k: 1 }, "5"],
  "a parallel block": [{ ...tiny, parallel: true, score_softcap: 1, logit_softcap: 1 }, "5 6"],
  "a window": [{ ...tiny, window: 1, qk_norm: "head", norm_place: "both" }, "5 6"],
  "norms after": [{ ...tiny, norm_place: "after_residual", positions: "relative", head_bias: true }, "5 6"],
  "all filters": [tiny, "5", { top_k: 11, top_p: 0.9, min_p: 0.2, typical_p: 0.8, epsilon_cutoff: 0.05, eta_cutoff: 0.1, repetition_penalty: 1.3 }],
  "typical tokens": [tiny, "5", { temperature: 0.4, top_k: 0, top_p: 1, typical_p: 0.2 }],
};
const words = Object.fromEntries(Array.from({ length: 13 }, (_, i) => [String(i), i]));
const tokenizer = { version: "1.0", pre_tokenizer: { type: "WhitespaceSplit" }, model: { type: "WordLevel", vocab: words, unk_token: "0" } };
const changes = [["one token", "--corrupted", "1"], ["two tokens", "--corrupted", "1 2"], ["two tokens", "--set", "unembed.hook_in=0"], ["experts", "--set", "hook_embed=0"]];

/// Attributes and texts of figures that are no numbers, and marks without the size or the colour of their value.
const wrong = () => {
  const bad = /NaN|Infinity|undefined|\[object/, found = [];
  for (const e of document.querySelectorAll("figure, figure *")) {
    for (const { name, value } of e.attributes) if (bad.test(value)) found.push(`<${e.localName} ${name}="${value}">`);
    for (const t of e.childNodes) if (t.nodeType === Node.TEXT_NODE && bad.test(t.data)) found.push(t.data);
    if (e.matches("span.bar") && !/^\d/.test(e.style.width)) found.push(`${e.dataset.site} ${e.dataset.index}: a bar without a width`);
    if (e.matches("td.cell") && !e.style.background) found.push(`${e.dataset.site} ${e.dataset.index}: a cell without a color`);
    if (e.matches("path[d='']") || e.matches("[viewBox*=null]")) found.push(e.outerHTML.slice(0, 90));
  }
  return [...new Set(found.map((x) => x.slice(0, 160)))];
};

/// Marks of the funnel whose number is not the program's.
const wrongFunnel = async () => {
  const wrong = [];
  for (const e of document.querySelectorAll("#funnel [data-site^='funnel.']")) {
    const v = await window.vitrine.values(e.dataset.site);
    if (Number(e.dataset.value) !== v.data[Number(e.dataset.index)]) wrong.push(`${e.dataset.site}[${e.dataset.index}] = ${e.dataset.value}, not ${v.data[Number(e.dataset.index)]}`);
  }
  return wrong;
};

for (const [name, [config, text, sampling]] of Object.entries(models)) {
  const file = join(folder, "config.json"), model = join(folder, name), page = join(folder, "page.html");
  writeFileSync(file, JSON.stringify(config));
  run("init", file, model, "--seed", "1");
  writeFileSync(join(model, "tokenizer.json"), JSON.stringify(tokenizer));
  if (sampling) writeFileSync(join(model, "generation_config.json"), JSON.stringify({ do_sample: true, ...sampling }));
  for (const [, ...options] of [[name], ...changes.filter(([of]) => of === name)]) {
    const what = [name, ...options].join(" ");
    run("look", model, text, ...options, "--out", page);
    const view = await open(page, { width: options.length > 0 ? 400 : 1280 });
    const look = async (when) => {
      await drawAll(view.page, 50).catch(async () => check(false, `${what}, ${when}: ${await view.page.evaluate(() => [...document.querySelectorAll("figure:not([data-drawn]):not([data-absent])")].map((f) => f.id).join(", "))} not drawn; ${view.events.slice(0, 2).join("; ")}`));
      const found = await view.page.evaluate(wrong);
      check(found.length === 0, `${what}, ${when}: ${found.slice(0, 6).join("; ")}`);
    };
    await look("opened");
    const funnel = await view.page.evaluate(wrongFunnel);
    check(funnel.length === 0, `${what}: ${funnel.slice(0, 4).join("; ")}`);
    for (const key of ["ArrowLeft", "Enter", "ArrowUp", "ArrowRight", "Escape", "x"]) await view.page.keyboard.press(key);
    for (const e of await view.page.$$("figure button[aria-pressed]")) await e.evaluate((b) => b.click());
    for (const slider of await view.page.$$("#funnel input[type=range]")) {
      for (const end of ["min", "max"]) await slider.evaluate((s, at) => { s.value = s[at]; s.dispatchEvent(new Event("input", { bubbles: true })); }, end);
    }
    await look("after keys and choices");
    check(view.events.length === 0, `${what}: ${[...new Set(view.events)].slice(0, 4).join("; ")}`);
    await view.close();
  }
}
await finish();
