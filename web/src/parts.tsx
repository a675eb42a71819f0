// The parts of which figures are made.
import type { ComponentChildren } from "preact";
import { batch, effect, signal, useComputed, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { has, read, readBlock, values, type Values } from "./data";
import { exactly, shown, piece, short } from "./format";
import { css, magnitudeOf } from "./color";
import { pngOf, svgOf } from "./picture";
import { after, dark, fragment, go, head, ids, layer, named, position, wide } from "./state";

/// The attributes of a mark that represents a number.
export function mark(site: string, at: (number | string)[], value: number, kind: "bar" | "dot" | "cell" | "text", single = false) {
  return { "data-site": named(site), "data-index": at.join(","), "data-value": exactly(value, single), "data-mark": kind };
}

const isSingle = (v: Values) => v.data instanceof Float32Array;

export function Num(p: { site: string; at: number[]; v: Values; i: number; format?: (x: number) => string }) {
  const x = p.v.data[p.i];
  return <span {...mark(p.site, p.at, x, "text", isSingle(p.v))}>{(p.v.exact ? "" : "≈ ") + (p.format ?? short)(x)}</span>;
}

/// A horizontal bar; `of` is the value of a bar of full length, which all bars of the figure share.
export function Bar(p: { site: string; at: number[]; v: Values; i: number; of: number; color?: string }) {
  const x = p.v.data[p.i];
  return (
    <span class="track">
      <span class="bar" style={{ width: `${(100 * Math.abs(x)) / p.of}%`, ...(p.color ? { background: p.color } : {}) }} {...mark(p.site, p.at, x, "bar", isSingle(p.v))} />
    </span>
  );
}

export function Token(p: { id: number }) {
  const text = piece(p.id);
  const bytes = text.includes("\\x");
  return (
    <bdi class={bytes ? "token bytes" : "token"}>
      {shown(text)}
    </bdi>
  );
}

/// Positions of the text as a row of buttons.
export function Chip(p: { t: number; children?: ComponentChildren }) {
  const on = useComputed(() => position.value === p.t);
  return (
    <button
      type="button"
      class="chip"
      data-token={p.t}
      aria-pressed={on.value}
      aria-label={`position ${p.t}: ${shown(piece(ids()[p.t]))}`}
      onClick={() => go({ position: p.t })}
    >
      <Token id={ids()[p.t]} />
      {p.children}
    </button>
  );
}

function download(name: string, type: string, content: BlobPart) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const drawingOf = (e: Event) => (e.currentTarget as Element).closest("figure")!.querySelector<HTMLElement>(".drawing")!;

async function downloadJson(id: string, sites: string[]) {
  const result: Record<string, unknown> = {};
  for (const name of sites.map(named).filter(has)) {
    const v = await values(name);
    result[name] = { ...v, data: Array.from(v.data) };
  }
  download(`${id}.json`, "application/json", JSON.stringify(result));
}

const everything = signal(false);
addEventListener("vitrine-show-all", () => (everything.value = true));

// Printing: light, all sections open, maps at 300 dpi.
const PRINTED = 640;  // pixels of a map, on at most 2.1 inches
const maps = new Set<(most?: number) => void>();
let closed: HTMLDetailsElement[] = [];
let wasDark = false;
addEventListener("beforeprint", () => {
  everything.value = true;
  wasDark = dark.value;
  document.documentElement.dataset.light = "";
  dark.value = false;
  closed = [...document.querySelectorAll<HTMLDetailsElement>("details:not(.menu):not([open])")];
  for (const d of closed) d.open = true;
  for (const draw of maps) draw(PRINTED);
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.light;
  dark.value = wasDark;
  for (const d of closed) d.open = false;
  for (const draw of maps) draw();
});

/// Draws all figures and waits for them, then prints.
export async function print() {
  everything.value = true;
  while (document.querySelector("figure:not([data-drawn]):not([data-absent])")) await new Promise((done) => setTimeout(done, 50));
  await new Promise((done) => setTimeout(done, 200));
  window.print();
}

const watched = new WeakMap<Element, (near: boolean) => void>();
const observer = new IntersectionObserver((list) => list.forEach((e) => watched.get(e.target)?.(e.isIntersecting)), { rootMargin: "600px" });

/// Whether an element has come near the view, and whether it is there now. Printing shows everything.
export function useSeen(atOnce = false) {
  const place = useRef<HTMLElement>(null);
  const near = useMemo(() => signal(false), []);
  const [seen, setSeen] = useState(atOnce);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    watched.set(element, (now) => {
      near.value = now;
      if (now) setSeen(true);
    });
    observer.observe(element);
    return () => observer.unobserve(element);
  }, []);
  return [place, seen || everything.value, near] as const;
}

const waiting = new Map<object, () => void>();
let isScheduled = false;

/// Runs the waiting work, one piece each time that the browser is idle.
function schedule() {
  if (isScheduled || waiting.size === 0) return;
  isScheduled = true;
  requestIdleCallback(() => {
    isScheduled = false;
    for (const [key, run] of waiting) {
      waiting.delete(key);
      run();
      break;
    }
    schedule();
  }, { timeout: 500 });
}

/// How many of `n` elements are drawn: at first `some`, then twice as many whenever the browser is idle.
export function useGradually(n: number, some: number): number {
  const [drawn, draw] = useState(some);
  const all = everything.value;
  useEffect(() => {
    const key = {};
    if (drawn < n && !all) waiting.set(key, () => draw(2 * drawn));
    schedule();
    return () => void waiting.delete(key);
  }, [drawn, n, all]);
  return all ? n : Math.min(drawn, n);
}

/// The selection as a figure draws it.
export interface Selection {
  position: Signal<number>;
  layer: Signal<number>;
  head: Signal<number>;
}

/// A figure that is not near the view follows the selection when the browser is idle.
function useSelection(near: Signal<boolean>): Selection {
  const at = useMemo(() => ({ position: signal(position.peek()), layer: signal(layer.peek()), head: signal(head.peek()) }), []);
  useEffect(() => {
    const stop = effect(() => {
      const now = [position.value, layer.value, head.value];
      const follow = () => batch(() => [at.position, at.layer, at.head].forEach((s, i) => (s.value = now[i])));
      waiting.delete(at);
      if (near.value) return follow();
      waiting.set(at, follow);
      schedule();
    });
    return () => {
      stop();
      waiting.delete(at);
    };
  }, []);
  return at;
}

/// The arrays `wanted`, once they have been read; those that the file lacks are undefined.
export function useValues(names: string[], active: boolean): (Values | undefined)[] | null {
  const wanted = names.map(named);
  const [found, setFound] = useState<{ key: string; list: (Values | undefined)[] } | null>(null);
  const key = wanted.join("\n");
  useEffect(() => {
    if (!active) return;
    let current = true;
    Promise.all(wanted.map(async (n) => (n.startsWith("cell:") && (await readBlock(n)), has(n) ? values(n) : undefined))).then((list) => current && setFound({ key, list }));
    return () => {
      current = false;
    };
  }, [key, active]);
  if (found?.key === key) return found.list;
  return active && wanted.every((n) => read(n) || !has(n)) ? wanted.map(read) : null;
}

export interface FigureProps {
  id: string;
  title: string;
  command: string;
  sites: string[];
  how: ComponentChildren;
  note?: ComponentChildren;
  /// Why it does not apply to this model.
  absent?: string | false;
  wide?: boolean;
  /// Drawn at once.
  first?: boolean;
  /// The sentence about this run, and the drawing.
  children: (v: Values[], at: Selection) => { says: ComponentChildren; draws: ComponentChildren };
}

export function Figure(p: FigureProps) {
  const [place, seen, near] = useSeen(p.first);
  const at = useSelection(near);
  const missing = p.sites.filter((n) => !has(n));
  const absent = p.absent || (missing.length > 0 && `This model or this file has no ${missing[0]}.`);
  const loaded = useValues(p.sites, seen && !absent);
  if (absent) {
    return (
      <figure id={p.id} data-figure={p.id} data-absent data-command={p.command}>
        <h3>{p.title}</h3>
        <p class="how">{absent}</p>
      </figure>
    );
  }
  const made = loaded && p.children(loaded as Values[], at);
  return (
    <figure id={p.id} data-figure={p.id} data-command={p.command} data-drawn={made ? "" : undefined} class={p.wide ? "wide" : ""} ref={place}>
      <h3>{p.title}</h3>
      {made ? (
        <>
          <div class="top">
            <div>
              <p class="says">{after.value && p.sites.some((n) => named(n) !== n) && <em>After the change: </em>}{made.says}</p>
              <p class="how">{p.how}</p>
            </div>
            {p.note && wide.value && <p class="note">{p.note}</p>}
          </div>
          <div class="drawing">{made.draws}</div>
          {p.note && !wide.value && <details class="aside"><summary>Note</summary><p class="note">{p.note}</p></details>}
          <details class="menu">
            <summary>Link, data and command</summary>
            <div>
              <a href={fragment(p.id)}>Link to this view</a>
              <button type="button" onClick={(e) => download(`${p.id}.svg`, "image/svg+xml", svgOf(drawingOf(e)))}>SVG</button>
              <button type="button" onClick={async (e) => download(`${p.id}.png`, "image/png", await pngOf(drawingOf(e)))}>PNG</button>
              <button type="button" onClick={() => downloadJson(p.id, p.sites)}>JSON</button>
              <code>{p.command}</code>
            </div>
          </details>
        </>
      ) : (
        <div class="waiting" />
      )}
    </figure>
  );
}

/// A scrolling area that can be reached with the keyboard.
export function Wide(p: { label: string; children: ComponentChildren }) {
  return (
    <div class="scroll" role="group" tabIndex={0} aria-label={p.label}>
      {p.children}
    </div>
  );
}

/// The range of a ramp.
export function Ramp(p: { low: string; high: string; sign?: boolean }) {
  void dark.value;
  return (
    <span class="ramp">
      {p.low} <span class={p.sign ? "scale sign" : "scale"} aria-hidden="true" /> {p.high}
    </span>
  );
}

/// Each pixel is the largest of the elements that it covers.
function paint(canvas: HTMLCanvasElement, data: ArrayLike<number>, from: number, rows: number, cols: number, most: number) {
  const step = Math.max(1, Math.ceil(Math.max(rows, cols) / most));
  const height = Math.ceil(rows / step), width = Math.ceil(cols / step);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  const pixels = image.data;
  for (let y = 0, at = 0; y < height; ++y) {
    const bottom = Math.min((y + 1) * step, rows);
    for (let x = 0; x < width; ++x, at += 4) {
      const right = Math.min((x + 1) * step, cols);
      let largest = 0;
      for (let t = y * step; t < bottom; ++t) {
        for (let i = from + t * cols + x * step, end = from + t * cols + right; i < end; ++i) if (data[i] > largest) largest = data[i];
      }
      const c = magnitudeOf(largest);
      pixels[at] = c[0];
      pixels[at + 1] = c[1];
      pixels[at + 2] = c[2];
      pixels[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

/// A map as a canvas with one pixel per element, or less for tiles of long texts.
export function Map_(p: { site: string; at: string; rows: number; cols: number; data: ArrayLike<number>; from: number; most: number; class?: string; total?: [number, number] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scheme = dark.value;
  const step = Math.max(1, Math.ceil(Math.max(p.rows, p.cols) / p.most));
  const height = Math.ceil(p.rows / step);
  const width = Math.ceil(p.cols / step);
  useEffect(() => {
    const draw = (most = p.most) => paint(canvas.current!, p.data, p.from, p.rows, p.cols, most);
    draw();
    maps.add(draw);
    return () => void maps.delete(draw);
  }, [p.data, p.from, scheme]);
  return <canvas ref={canvas} width={width} height={height} class={p.class} data-site={named(p.site)} data-index={p.at} data-rows={p.total?.[0] ?? p.rows} data-cols={p.total?.[1] ?? p.cols} role="img" aria-label={`${p.site}, head ${p.at}`} />;
}

export const magnitudeCss = (x: number) => css(magnitudeOf(x));

/// The heights of labels, moved apart so that none covers another.
export function spread(heights: number[], gap = 15): number[] {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const result = [...heights];
  for (let k = 1; k < order.length; ++k) result[order[k]] = Math.max(result[order[k]], result[order[k - 1]] + gap);
  return result;
}
