// Draws the pictures of docs/inside.md: node pictures.mjs VITRINE. It trains the run of one of them, as learning.toml says.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { crc32, deflateSync } from "node:zlib";
import { chromium } from "playwright-core";

const vitrine = resolve(process.argv[2]);
const folder = mkdtempSync(join(tmpdir(), "vitrine-pictures-"));
const out = new URL("../docs/pictures/", import.meta.url).pathname;
mkdirSync(out, { recursive: true });

/// 8000 sentences such as "Tim and Lily ran in the park.", from a linear congruential generator.
function sentences() {
  const names = ["Tim", "Lily", "Ben", "Mia", "Sam", "Anna"], verbs = ["ran", "sat", "slept", "played", "jumped"], places = ["park", "garden", "house", "river", "tree"];
  let state = 1;
  const pick = (list) => list[Math.floor((state = (1664525 * state + 1013904223) % 2 ** 32) / 2 ** 32 * list.length)];
  return Array.from({ length: 8000 }, () => {
    const first = pick(names);
    return `${first} and ${pick(names.filter((name) => name !== first))} ${pick(verbs)} in the ${pick(places)}.`;
  }).join(" ");
}

function trained() {
  const train = (...args) => execFileSync(vitrine, args, { cwd: folder });
  writeFileSync(join(folder, "text.txt"), sentences());
  copyFileSync(new URL("learning.toml", import.meta.url), join(folder, "run.toml"));
  train("tokenizer", "train", "text.txt", "--vocab-size", "320", "--out", "tok.json");
  train("data", "pack", "text.txt", "--tokenizer", "tok.json", "--out", "tokens");
  train("train", "run.toml");
  return join(folder, "run");
}

const run = trained();
const pages = [
  [["Once upon a time there was a little girl named"], ["attention-maps", "lens", "attribution", "heads"]],
  [["The dog saw a cat. The", "--corrupted", "The cat saw a dog. The"], ["patch"]],
  [[join(run, "last"), "Tim and Lily ran in the park. Tim and Lily", "--run", run], ["run"]],
];

/// A PNG of the 255 most frequent colors: less than half the bytes of a screenshot.
function png({ width, height, data }) {
  const color = (i) => (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
  const count = new Map();
  for (let i = 0; i < data.length; i += 4) count.set(color(i), (count.get(color(i)) ?? 0) + 1);
  const colors = [...count].sort((a, b) => b[1] - a[1]).slice(0, 255).map(([c]) => c);
  const channels = (c) => [c >> 16, (c >> 8) & 255, c & 255];
  const distance = (a, b) => channels(a).reduce((sum, x, k) => sum + (x - channels(b)[k]) ** 2, 0);
  const nearest = new Map([...count.keys()].map((c) => [c, colors.reduce((best, x, i) => (distance(c, x) < distance(c, colors[best]) ? i : best), 0)]));
  const rows = Buffer.alloc((width + 1) * height);  // each begins with filter 0
  for (let y = 0; y < height; ++y) for (let x = 0; x < width; ++x) rows[y * (width + 1) + 1 + x] = nearest.get(color(4 * (y * width + x)));
  const chunk = (type, bytes) => {
    const body = Buffer.concat([Buffer.from(type), bytes]), ends = Buffer.alloc(8);
    ends.writeUInt32BE(bytes.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 3, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  const palette = Buffer.from(colors.flatMap(channels));
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", header), chunk("PLTE", palette), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const decoder = await browser.newPage();
const pixels = async (shot) => decoder.evaluate(async (base64) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  return { width: image.width, height: image.height, data: Array.from(context.getImageData(0, 0, image.width, image.height).data) };
}, shot.toString("base64"));
const page = await browser.newPage({ viewport: { width: 760, height: 900 }, colorScheme: "light" });
for (const [text, figures] of pages) {
  const file = join(folder, "page.html");
  execFileSync(vitrine, ["look", ...text, "--out", file]);
  await page.goto(`file://${file}`);
  await page.waitForSelector("html[data-ready]");
  await page.evaluate(() => dispatchEvent(new Event("vitrine-show-all")));
  await page.waitForFunction(() => !document.querySelector("figure:not([data-drawn]):not([data-absent])"));
  await page.addStyleTag({ content: "header.bar-of-tokens { position: static !important } details.menu { display: none }" });
  for (const figure of figures) {
    const shot = await (await page.$(`#${figure}`)).screenshot();
    writeFileSync(join(out, `${figure}.png`), png(await pixels(shot)));
  }
}
await browser.close();
rmSync(folder, { recursive: true });
