// What the tests of pages share: node TEST.mjs VITRINE
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const vitrine = process.argv[2] ?? "../build/vitrine";
export const folder = mkdtempSync(join(tmpdir(), "vitrine-page-"));
let passed = 0, failed = 0;

export function check(ok, what) {
  ok ? ++passed : ++failed;
  if (!ok) console.log(`FAILED: ${what}`);
}
export const run = (...args) => execFileSync(vitrine, args, { encoding: "utf8", maxBuffer: 1 << 28 });
export const json = (...args) => JSON.parse(run(...args, "--json"));

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

export async function open(file, { width = 1280, scheme = "light", hash = "" } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
  const page = await context.newPage();
  const events = [];
  page.on("console", (m) => events.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => events.push(`error: ${e.message}`));
  page.on("dialog", (d) => { events.push("a dialog"); void d.dismiss(); });
  page.on("request", (r) => r.url().startsWith("file:") && r.isNavigationRequest() || events.push(`request: ${r.url()}`));
  await page.goto(`file://${file}${hash}`);
  await page.waitForSelector("html[data-ready]", { timeout: 30000 });
  return { page, events, close: () => context.close() };
}

export async function drawAll(page, rest = 300) {
  await page.evaluate(() => dispatchEvent(new Event("vitrine-show-all")));
  await page.waitForFunction(() => !document.querySelector("figure:not([data-drawn]):not([data-absent])"), null, { timeout: 10000 });
  await page.waitForTimeout(rest);
}

/// Ends the test.
export async function finish() {
  await browser.close();
  rmSync(folder, { recursive: true });
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
