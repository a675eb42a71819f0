// Drives pages in Chromium: node page_test.mjs VITRINE
//
// Every number that a page shows equals that of trace and predict; nothing is requested, printed or executed; there is no
// finding of axe and no sideways scrolling; keys and links work.
import { execFileSync } from "node:child_process";
import { readFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, check, drawAll, finish, folder, json, open, run, vitrine } from "./test_browser.mjs";

const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

function safetensors(path) {
  const bytes = readFileSync(path);
  const size = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + size).toString());
  return Object.fromEntries(Object.entries(header).filter(([name]) => name !== "__metadata__").map(([name, t]) => {
    const [begin, end] = t.data_offsets;
    const data = new Float32Array((end - begin) / 4);
    for (let i = 0; i < data.length; ++i) data[i] = bytes.readFloatLE(8 + size + begin + 4 * i);
    return [name, { shape: t.shape, data }];
  }));
}

const same = (a, b) => Object.is(a, b) || a === b;
const equal = (a, b) => a.length === b.length && a.every((x, i) => same(x, b[i]));

/// A SAELens folder with random weights, for a stream of 24 elements.
function dictionary(path) {
  const shapes = { W_enc: [24, 40], b_enc: [40], W_dec: [40, 24], b_dec: [24] };
  let seed = 1, offset = 0;
  const random = () => ((seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 30 - 1);
  const header = {}, parts = [];
  for (const [name, shape] of Object.entries(shapes)) {
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, random);
    header[name] = { dtype: "F32", shape, data_offsets: [offset, (offset += data.byteLength)] };
    parts.push(Buffer.from(data.buffer));
  }
  const text = Buffer.from(JSON.stringify(header)), size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  mkdirSync(path);
  writeFileSync(join(path, "sae_weights.safetensors"), Buffer.concat([size, text, ...parts]));
  writeFileSync(join(path, "cfg.json"), JSON.stringify({ architecture: "standard", d_in: 24, d_sae: 40, metadata: { hook_name: "blocks.1.hook_resid_post" } }));
  return path;
}

/// An index of its features over random tokens, as `data pack` stores them.
function featuresIndex(path, sae) {
  const n = 400, ids = Buffer.alloc(2 * n), header = Buffer.alloc(96), start = Buffer.alloc(8);
  let seed = 7;
  for (let i = 0; i < n; ++i) ids.writeUInt16LE((seed = (seed * 1103515245 + 12345) % 2 ** 31) % 20, 2 * i);
  header.write("VITRTOKS");
  header.writeUInt32LE(1, 8);
  header.writeUInt32LE(2, 12);
  [20n, 1n, 2n ** 64n - 1n, BigInt(n), 1n, 0n].forEach((x, i) => header.writeBigUInt64LE(x, 16 + 8 * i));
  header.writeUInt32LE(1, 68);
  mkdirSync(`${path}-tokens`);
  writeFileSync(join(`${path}-tokens`, "shard-00000.tokens"), Buffer.concat([header, ids, start]));
  run("features", "index", "../tests/goldens/gpt2", `${path}-tokens`, "--sae", sae, "--window", "16", "--out", path);
  return path;
}

/// A click on a feature shows what `features show` says of it.
async function checkDashboard(page, feature) {
  const shown = json("features", "show", join(folder, "index"), String(feature));
  await page.click(`#features button.plain:text-is("${feature}")`);
  const found = await page.waitForSelector(`.dashboard[data-feature="${feature}"]`, { timeout: 5000 }).then(() => true, () => false);
  check(found, `features: no dashboard of ${feature}`);
  if (!found) return;
  const numbers = (site) => page.$$eval(`.dashboard [data-site='features.0.dashboards.${site}']`, (marks) => marks.map((e) => Math.fround(Number(e.dataset.value))));
  check(equal(await numbers("context.max"), shown.contexts.slice(0, 8).map((c) => Math.fround(c.max))), "features: other contexts");
  check(equal(await numbers("histogram"), shown.histogram.counts), "features: another histogram");
  check(equal(await numbers("density"), [Math.fround(shown.density)]), "features: another density");
  check(equal(await numbers("context.value"), shown.contexts.slice(0, 8).flatMap((c) => c.values.map(Math.fround))), "features: other values");
  check(equal(await numbers("logit.id"), [...shown.top_logits.slice(0, 5), ...shown.bottom_logits.slice(0, 5)].map((x) => x.id)), "features: other logits");
  const marks = await page.evaluate(wrongMarks);
  check(marks.wrong.length === 0, `features: of the dashboard are wrong: ${marks.wrong.slice(0, 5).join("; ")}`);
}

const hostile = "He said </script><script>alert(1)</script> & \"<b>\" 😀 \u0001\u202e שלום";
const cases = [
  { name: "default model", args: ["Once upon a time there was a little girl named"] },
  { name: "hostile text", args: [hostile] },
  { name: "a changed value", args: ["Once upon a time there was a little"], change: ["--set", "blocks.2.attn.hook_z[:,3]=0"], more: ["--analogy", "girl - she + he", "--cell", "blocks.0.mlp.hook_post[3,7]"] },
  ...["gpt2", "gpt_neox", "olmo2", "qwen3", "mixtral", "gpt_oss", "qwen3_next", "mamba2"].filter((g) => existsSync(`../tests/goldens/${g}/config.json`)).map((g) => ({ name: g, args: [`../tests/goldens/${g}`, "--ids", "1,5,9,2,7,3,5,9"] })),
  { name: "features", args: ["../tests/goldens/gpt2", "--ids", "1,5,9,2,7,3,5,9", "--sae", dictionary(join(folder, "sae"))], more: ["--features-index", featuresIndex(join(folder, "index"), join(folder, "sae"))] },
];

/// Marks whose number is not that of values(), and bars that are not as long as their values.
const wrongMarks = () => window.vitrine.ready.then(async () => {
  const wrong = [], scales = new Map();
  let n = 0;
  for (const e of document.querySelectorAll("[data-value]")) {
    const v = await window.vitrine.values(e.dataset.site);
    const index = e.dataset.index === "" ? [] : e.dataset.index.split(",").map(Number);
    let flat = 0;
    v.shape.forEach((size, i) => (flat = flat * size + index[i]));
    const text = e.dataset.value;
    const value = text === "nan" ? NaN : text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);
    const read = v.data instanceof Float32Array ? Math.fround(value) : value;
    ++n;
    if (index.length !== v.shape.length || !Object.is(read + 0, v.data[flat] + 0)) wrong.push(`${e.dataset.site}[${e.dataset.index}] = ${text}, not ${v.data[flat]}`);
    if (e.dataset.mark === "bar" && e.closest(".track")) {
      const key = `${e.closest("figure").id} ${e.dataset.site}`;
      const full = e.closest(".track").getBoundingClientRect().width;
      if (!full) continue;
      const length = e.getBoundingClientRect().width / full / Math.abs(value || 1);
      if (value && Math.abs(value) > 1e-9) (scales.get(key) ?? scales.set(key, []).get(key)).push([length, 1 / full / Math.abs(value)]);
    }
  }
  for (const [key, list] of scales) {
    const [first] = list.reduce((a, b) => (b[1] < a[1] ? b : a));  // the longest bar, whose rounding to pixels is the least
    for (const [length, pixel] of list) if (Math.abs(length - first) > 0.02 * first + pixel) { wrong.push(`${key}: bars of different scales`); break; }
  }
  return { n, wrong };
});

/// Maps whose darkness does not increase with the weight.
const wrongMaps = () => window.vitrine.ready.then(async () => {
  const wrong = [];
  let n = 0;
  for (const canvas of document.querySelectorAll("canvas[data-site]")) {
    const v = await window.vitrine.values(canvas.dataset.site);
    const [, rows, cols] = v.shape;
    if (canvas.width !== cols) continue;
    const image = canvas.getContext("2d").getImageData(0, 0, cols, rows).data;
    const cells = Array.from({ length: rows * cols }, (_, i) => [v.data[Number(canvas.dataset.index) * rows * cols + i], image[4 * i] + image[4 * i + 1] + image[4 * i + 2]]);
    cells.sort((a, b) => a[0] - b[0]);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    ++n;
    if (cells.some(([, c], i) => i > 0 && (dark ? c < cells[i - 1][1] : c > cells[i - 1][1]))) wrong.push(`${canvas.dataset.site} ${canvas.dataset.index}`);
  }
  return { n, wrong };
});

for (const { name, args, change = [], more = [] } of cases) {
  const file = join(folder, "page.html"), traced = join(folder, "trace.safetensors");
  const report = json("look", ...args, ...change, ...more, "--out", file);
  const source = readFileSync(file, "utf8");
  check(source.split("</script>").length === source.split("<script").length, `${name}: a text has ended a script`);
  const { page, events, close } = await open(file);
  await drawAll(page);

  const marks = await page.evaluate(wrongMarks);
  check(marks.n > 300 && marks.wrong.length === 0, `${name}: of ${marks.n} marks wrong: ${marks.wrong.slice(0, 5).join("; ")}`);
  const maps = await page.evaluate(wrongMaps);
  check(maps.n > 0 && maps.wrong.length === 0, `${name}: of ${maps.n} maps wrong: ${maps.wrong.slice(0, 5)}`);

  const values = (array) => page.evaluate(async (n) => { const v = await window.vitrine.values(n); return { shape: v.shape, data: Array.from(v.data, (x) => (Number.isFinite(x) ? x : String(x))), exact: v.exact }; }, array).then((v) => ({ ...v, data: v.data.map((x) => (typeof x === "string" ? Number(x) : x)) }));
  const predicted = json("predict", ...args).tokens;
  const [ids, probs] = [await values("top.id"), await values("top.prob")];
  check(equal(ids.data, predicted.flatMap((t) => t.top.map((x) => x.id))), `${name}: top.id is not that of predict`);
  check(equal(probs.data, predicted.flatMap((t) => t.top.map((x) => x.prob))), `${name}: top.prob is not that of predict`);

  if (name === "features") {
    const [found] = json("features", ...args).saes;
    const [of, value] = [await values("features.0.index"), await values("features.0.value")];
    const flat = (key, none) => found.tokens.flatMap((t) => Array.from({ length: 5 }, (_, i) => (i < t.length ? t[i][key] : none)));
    check(equal(of.data, flat("index", -1)) && equal(value.data, flat("value", NaN)), `${name}: they are not those of features`);
    const shown = await page.$$eval("#features [data-site='features.0.index']", (marks) => marks.map((e) => Number(e.dataset.value)));
    check(equal(shown, found.tokens.at(-1).map((x) => x.index)), `${name}: shown are ${shown}`);
    await page.keyboard.press("ArrowLeft");
    const before = found.tokens.at(-2).map((x) => x.index);
    const follows = await page.waitForFunction((indices) => {
      const marks = Array.from(document.querySelectorAll("#features [data-site='features.0.index']"), (e) => Number(e.dataset.value));
      return marks.join() === indices.join();
    }, before, { timeout: 5000 }).then(() => true, () => false);
    check(follows, `${name}: at the position before, other features are shown than ${before}`);
    await page.keyboard.press("ArrowRight");
    await checkDashboard(page, found.tokens.at(-1)[0].index);
  } else {
    check(await page.evaluate(() => document.querySelector("#features") === null), `${name}: there are features without --sae`);
  }

  run("trace", ...args, "--out", traced);
  const runs = { "": safetensors(traced) };
  if (change.length > 0) {
    run("trace", ...args, ...change, "--out", traced);
    runs["after:"] = safetensors(traced);
  }
  const names = await page.evaluate(() => window.vitrine.names());
  const T = report.ids.length;
  let compared = 0;
  for (const { name: array, exact } of names) {
    if (array.startsWith("cell:")) continue;
    const [, prefix = "", site, row] = /^(after:)?([^[]+)(?:\[(?::,)?(\d+)\])?$/.exec(array);
    const sites = runs[prefix];
    if (!sites?.[site] || !exact) continue;
    const v = await values(array);
    let expected = Array.from(sites[site].data);
    if (row !== undefined && sites[site].shape[0] !== T) {
      const [H, , S] = sites[site].shape;
      expected = Array.from({ length: H }, (_, h) => expected.slice((h * T + Number(row)) * S, (h * T + Number(row) + 1) * S)).flat();
    } else if (row !== undefined) {
      const width = expected.length / T;
      expected = array.includes("[:,") ? Array.from({ length: T }, (_, h) => expected.slice((h * T + Number(row)) * T, (h * T + Number(row) + 1) * T)).flat() : expected.slice(Number(row) * width, (Number(row) + 1) * width);
    }
    ++compared;
    if (!equal(v.data, expected)) check(false, `${name}: ${array} is not that of trace`);
  }
  check(compared > 20, `${name}: only ${compared} arrays have a site of trace`);

  for (const seed of [0, 1, 2, 3]) {
    const drawn = await page.evaluate(async (s) => {
      const input = document.querySelector("#funnel input[type=number]");
      input.value = String(s);
      input.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 60));
      return Number(document.querySelector("[data-drawn-id]").dataset.drawnId);
    }, seed);
    const made = json("generate", ...(args[0].startsWith("..") ? [args[0]] : []), "--ids", report.ids.join(","), "--max-tokens", "1", "--seed", String(seed));
    if (made.finish_reason === "stop" && made.ids.length === 0) continue;  // the drawn token ends the text
    check(made.ids.at(-1) === drawn, `${name}: seed ${seed} draws ${drawn}, generate ${JSON.stringify(made.ids)}`);
  }
  if (change.length > 0) {
    await page.keyboard.press("x");
    check(await page.evaluate(() => window.vitrine.state().after), `${name}: x does not show the changed run`);
    await drawAll(page);
    const changed = await page.evaluate(wrongMarks);
    check(changed.n > 300 && changed.wrong.length === 0, `${name}: after the change, of ${changed.n} marks wrong: ${changed.wrong.slice(0, 5).join("; ")}`);
    check(await page.evaluate(() => document.querySelectorAll("[data-site^='after:']").length > 100), `${name}: no figure shows the changed run`);
    await page.keyboard.press("x");
  }

  // Every figure names its command, and the command of a value that is not spelled spells it.
  check(await page.evaluate(() => [...document.querySelectorAll("figure")].every((f) => f.dataset.command.startsWith("vitrine "))), `${name}: a figure has no command`);
  const refused = await page.evaluate(() => window.vitrine.cell("blocks.0.hook_resid_pre[0,1]").catch((e) => e.message));
  check(/--cell 'blocks\.0\.hook_resid_pre\[0,1\]'/.test(refused), `${name}: ${refused}`);
  for (const cell of more.filter((_, i) => more[i - 1] === "--cell")) {
    const spelled = await page.evaluate((c) => window.vitrine.cell(c), cell);
    check(spelled.terms.length > 0 && Math.abs(spelled.result - spelled.value) <= 1e-4 * (1 + Math.abs(spelled.value)), `${name}: ${cell} is not spelled`);
  }
  if (name === "default model") {
    // Every drawn figure can be saved as SVG, PNG and JSON.
    const save = async (id, kind) => Buffer.from(await page.evaluate(async ([f, k]) => {
      const saved = new Promise((done) => (URL.createObjectURL = (blob) => (done(blob), "")));
      HTMLAnchorElement.prototype.click = () => {};
      [...document.querySelectorAll(`#${f} .menu button`)].find((b) => b.textContent === k).click();
      return Array.from(new Uint8Array(await (await saved).arrayBuffer()));
    }, [id, kind]));
    for (const id of await page.evaluate(() => [...document.querySelectorAll("figure:not([data-absent])")].filter((f) => f.querySelector(".menu")).map((f) => f.id))) {
      const svg = (await save(id, "SVG")).toString("utf8");
      const parts = await page.evaluate((text) => { const d = new DOMParser().parseFromString(text, "image/svg+xml"); return d.querySelector("parsererror") ? -1 : d.querySelectorAll("text").length; }, svg);
      check(parts > 1, `${name}: the SVG of ${id} has ${parts} texts`);
      const png = await save(id, "PNG");
      check(png.subarray(1, 4).toString() === "PNG" && png.readUInt32BE(16) > 200 && png.length > 2000, `${name}: the PNG of ${id} has ${png.length} bytes`);
      check(Object.keys(JSON.parse((await save(id, "JSON")).toString("utf8"))).length > 0, `${name}: the JSON of ${id} is empty`);
    }
    const entropy = await values("heads.entropy");
    await page.evaluate(() => window.vitrine.go({ sort: "entropy" }));
    await page.waitForTimeout(100);
    const order = await page.evaluate(() => [...document.querySelectorAll("#attention-maps .tile")].map((t) => t.textContent.split(" ")[0].split(".").map(Number)));
    const sorted = order.map(([l, h]) => entropy.data[l * entropy.shape[1] + h]);
    check(sorted.length > 3 && sorted.every((x, i) => i === 0 || x <= sorted[i - 1]), `${name}: maps are not sorted by entropy: ${sorted}`);
    await page.evaluate(() => window.vitrine.go({ sort: "" }));
  }
  check(events.length === 0, `${name}: ${events.slice(0, 3).join("; ")}`);
  await close();

  // Printing: light, all sections open, maps with at least 300 pixels per inch or all their elements.
  const printed = await open(file, { scheme: "dark" });
  await drawAll(printed.page);
  await printed.page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await printed.page.waitForTimeout(200);
  const sheet = await printed.page.evaluate(() => ({
    paper: getComputedStyle(document.body).backgroundColor,
    closed: document.querySelectorAll("details:not(.menu):not([open])").length,
    coarse: [...document.querySelectorAll("canvas")].filter((c) => c.width < Math.min(Number(c.dataset.cols), 300)).length,
  }));
  check(sheet.paper === "rgb(253, 253, 250)" && sheet.closed === 0 && sheet.coarse === 0, `${name}: printed as ${JSON.stringify(sheet)}`);
  await printed.close();

  for (const scheme of ["light", "dark"]) {
    for (const width of [400, 1280, 3840]) {
      if (args.includes("--ids") && (width === 1280) !== (scheme === "dark")) continue;  // other models: half of the views
      const view = await open(file, { width, scheme });
      await drawAll(view.page);
      const wide = await view.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `${name}: ${wide} pixels of sideways scrolling at ${width}, ${scheme}`);
      if (width === 1280 || (width === 400 && scheme === "light")) {
        await view.page.evaluate(axe);
        const found = await view.page.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].any?.[0]?.message ?? ""}`)));
        check(found.length === 0, `${name}: axe at ${width}, ${scheme}: ${found.join("\n    ")}`);
      }
      check(view.events.length === 0, `${name}: ${view.events.slice(0, 3).join("; ")}`);
      await view.close();
    }
  }

  // Keys and links.
  const view = await open(file);
  const state = () => view.page.evaluate(() => window.vitrine.state());
  await view.page.keyboard.press("ArrowLeft");
  check((await state()).position === T - 2, `${name}: ← does not move the position`);
  await view.page.keyboard.press("ArrowDown");
  check((await state()).layer === 1, `${name}: ↓ does not move the layer`);
  if (name === "mamba2") {  // without attention there are neither heads nor maps
    check(view.events.length === 0, `${name}: ${view.events.slice(0, 3).join("; ")}`);
    await view.close();
    continue;
  }
  await view.page.keyboard.press("]");
  check((await state()).head === 1, `${name}: ] does not move the head`);
  await drawAll(view.page);
  await view.page.keyboard.press("Enter");
  await view.page.waitForSelector(".enlarged output");
  const before = (await state()).cursor;
  await view.page.keyboard.press("ArrowUp");
  check((await state()).cursor[0] === before[0] - 1, `${name}: ↑ does not move the cursor of an enlarged map`);
  const shown = await view.page.$eval(".enlarged output", (e) => [e.dataset.site, e.dataset.index, e.dataset.value]);
  if (name === "gpt_oss") {  // a row of the pattern and what its sink takes add up to 1
    await view.page.waitForSelector(".enlarged [data-nothing]");
    const weights = await view.page.$$eval(".enlarged [data-mark=bar]", (bars) => bars.map((e) => Number(e.dataset.value)));
    const sum = weights.reduce((a, b) => a + b, 0);
    check(weights.length > 1 && weights.at(-1) > 0 && Math.abs(sum - 1) < 1e-5, `${name}: a row with a sink adds up to ${sum}`);
  }
  const link = new URL(view.page.url()).hash;
  const other = await open(file, { hash: link });
  await other.page.waitForFunction(() => window.vitrine.state().enlarged);
  await drawAll(other.page);
  await other.page.waitForSelector(".enlarged output");
  check(JSON.stringify(await other.page.evaluate(() => window.vitrine.state())) === JSON.stringify(await state()), `${name}: a link does not restore the view`);
  check(JSON.stringify(await other.page.$eval(".enlarged output", (e) => [e.dataset.site, e.dataset.index, e.dataset.value])) === JSON.stringify(shown), `${name}: a link shows another cell`);
  await other.close();
  await view.page.keyboard.press("Escape");
  check(!(await state()).enlarged, `${name}: Esc does not close the map`);
  await view.page.keyboard.press("?");
  check(await view.page.isVisible(".keys"), `${name}: ? does not show the keys`);
  await view.page.keyboard.press("Escape");
  await view.page.keyboard.press("/");
  check(await view.page.evaluate(() => document.activeElement.id === "find"), `${name}: / does not find sites`);
  check(view.events.length === 0, `${name}: ${view.events.slice(0, 3).join("; ")}`);
  await view.close();
}

// Large pages of 26 layers × 8 heads, of 512 and of 128 tokens. Their size, the time to the first figures beside that of a
// bare page of as many bytes, and the time of interactions, as opened and with all figures drawn. Times are printed; with
// VITRINE_TIMES=1, for an idle machine, they are checked.
const checks = process.env.VITRINE_TIMES === "1" ? check : () => {};

async function timed(path, shown) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const start = performance.now();
  await page.goto(`file://${path}`, { waitUntil: shown ? "commit" : "load" });
  if (shown) await page.waitForSelector(shown, { state: "attached" });
  return { page, ms: performance.now() - start, close: () => context.close() };
}

async function slowestKey(page) {
  const slowest = { key: "", ms: 0 };
  for (const key of ["ArrowLeft", "ArrowLeft", "ArrowDown", "]", "Enter", "ArrowDown", "ArrowRight", "Escape", "?", "Escape", "/"]) {
    const start = performance.now();
    await page.keyboard.press(key);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const ms = performance.now() - start;
    if (ms > slowest.ms) Object.assign(slowest, { key, ms });
  }
  return slowest;
}

const large = join(folder, "large");
run("init", "gemma-2-2b", large, "--seed", "1", ...["d_model=128", "vocab_size=4096"].flatMap((x) => ["--set", x]));
for (const n of [512, 128]) {
  const file = join(folder, "large.html"), bare = join(folder, "bare.html");
  const { bytes } = json("look", large, "--ids", Array.from({ length: n }, (_, i) => (i * 7919) % 1000 + 1).join(","), "--out", file);
  check(bytes <= 16 * 2 ** 20, `a page of ${n} tokens has ${bytes} bytes`);
  writeFileSync(bare, `<!DOCTYPE html><html lang="en"><body><p>text</p><script type="application/octet-stream">${"QUJD".repeat(bytes / 4)}</script></body></html>`);
  const bares = [], pages = [];
  for (let i = 0; i < 5; ++i) {
    for (const [path, list, shown] of [[bare, bares, ""], [file, pages, "html[data-ready]"]]) {
      const opened = await timed(path, shown);
      list.push(opened.ms);
      await opened.close();
    }
  }
  const opening = Math.min(...pages);
  checks(opening <= 3 * Math.min(...bares), `a page of ${n} tokens opens in ${opening.toFixed(0)} ms, a bare page in ${Math.min(...bares).toFixed(0)}`);
  console.log(`a page of ${n} tokens and ${(bytes / 1e6).toFixed(1)} MB opens in ${opening.toFixed(0)} ms (bare: ${Math.min(...bares).toFixed(0)})`);
  for (const all of [false, true]) {
    const { page, close } = await timed(file, "html[data-ready]");
    if (all) await drawAll(page);
    await page.waitForTimeout(2000);
    const { key, ms } = await slowestKey(page);
    const what = all ? "with all figures drawn" : "as opened";
    checks(ms <= Math.max(...pages), `${n} tokens, ${what}: ${key} takes ${ms.toFixed(0)} ms, opening ${Math.max(...pages).toFixed(0)}`);
    console.log(`  ${what}, the slowest key, ${key}, takes ${ms.toFixed(0)} ms`);
    await close();
  }
}

// The page of a classifier: its own figures, with the numbers of the commands.
{
  const args = ["../tests/goldens/heads/bert_classes", "--ids", "1,5,9,7,3,2"], name = "a classifier", file = join(folder, "page.html");
  json("look", ...args, "--out", file);
  for (const [width, scheme] of [[1280, "light"], [400, "dark"]]) {
    const { page, events, close } = await open(file, { width, scheme });
    await drawAll(page);
    const marks = await page.evaluate(wrongMarks);
    check(marks.n > 60 && marks.wrong.length === 0, `${name}: of ${marks.n} marks wrong: ${marks.wrong.slice(0, 5).join("; ")}`);
    const drawn = await page.evaluate(() => [...document.querySelectorAll("figure[data-drawn]")].map((f) => f.id));
    check(["label", "words", "attribution", "attention-maps"].every((id) => drawn.includes(id)), `${name}: drawn are ${drawn}`);
    check(await page.evaluate(() => document.querySelector("#joining").hasAttribute("data-absent")), `${name}: one text is joined with none`);
    const label = await page.evaluate(() => document.querySelector("#words").dataset.command);
    const found = JSON.parse(execFileSync("bash", ["-c", label.replace(/^vitrine/, vitrine)], { encoding: "utf8" }));
    const tokens = await page.evaluate(() => window.vitrine.values("attribution.token").then((v) => Array.from(v.data)));
    check(equal(tokens, found.tokens), `${name}: the words are not those of ${label}`);
    check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: sideways scrolling at ${width}`);
    await page.evaluate(axe);
    const violations = await page.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 160)}`)));
    check(violations.length === 0, `${name}: axe at ${width}: ${violations.join("\n    ")}`);
    check(events.length === 0, `${name}: ${events.slice(0, 3).join("; ")}`);
    await close();
  }
}

await finish();
