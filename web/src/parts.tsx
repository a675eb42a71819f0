// The parts of which figures are made.
import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { has, readBlock, values, type Values } from "./data";
import { exactly, shown, piece, short } from "./format";
import { css, magnitudeOf } from "./color";
import { after, dark, fragment, go, hovered, ids, named, position, wide } from "./state";

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
    <bdi class={bytes ? "token bytes" : "token"} title={`id ${p.id}`}>
      {shown(text)}
    </bdi>
  );
}

/// Positions of the text as a row of buttons.
export function Chip(p: { t: number; children?: ComponentChildren }) {
  const on = position.value === p.t;
  return (
    <button
      type="button"
      class={`chip${hovered.value === p.t ? " lit" : ""}`}
      aria-pressed={on}
      aria-label={`position ${p.t}: ${shown(piece(ids()[p.t]))}`}
      onClick={() => go({ position: p.t })}
      onMouseEnter={() => (hovered.value = p.t)}
      onMouseLeave={() => (hovered.value = null)}
      onFocus={() => (hovered.value = p.t)}
      onBlur={() => (hovered.value = null)}
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

async function downloadJson(id: string, sites: string[]) {
  const result: Record<string, unknown> = {};
  for (const name of sites.map(named).filter(has)) {
    const v = await values(name);
    result[name] = { ...v, data: Array.from(v.data) };
  }
  download(`${id}.json`, "application/json", JSON.stringify(result));
}

function downloadPicture(id: string, figure: HTMLElement) {
  const svg = figure.querySelector("svg");
  const canvas = figure.querySelector("canvas");
  if (svg) {
    const copy = svg.cloneNode(true) as SVGElement;
    const from = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((to, i) => {
      const style = getComputedStyle(from[i]);
      for (const key of ["fill", "stroke", "stroke-width", "font", "opacity", "stroke-dasharray", "text-anchor"]) (to as SVGElement).style.setProperty(key, style.getPropertyValue(key));
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    download(`${id}.svg`, "image/svg+xml", copy.outerHTML);
  } else if (canvas) {
    canvas.toBlob((blob) => blob && download(`${id}.png`, "image/png", blob));
  }
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

/// Whether an element has come near the view. Printing shows everything.
export function useSeen() {
  const place = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState(false);
  const all = everything.value;
  useEffect(() => {
    if (seen || all || !place.current) return;
    const observer = new IntersectionObserver((list) => list.some((e) => e.isIntersecting) && setSeen(true), { rootMargin: "600px" });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [seen, all]);
  return [place, seen || all] as const;
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
  return found && found.key === key ? found.list : null;
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
  /// The sentence about this run, and the drawing.
  children: (v: Values[]) => { says: ComponentChildren; draws: ComponentChildren };
}

export function Figure(p: FigureProps) {
  const [place, seen] = useSeen();
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
  const made = loaded && p.children(loaded as Values[]);
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
              <button type="button" onClick={(e) => downloadPicture(p.id, e.currentTarget.closest("figure")!)}>
                Picture
              </button>
              <button type="button" onClick={() => downloadJson(p.id, p.sites)}>
                JSON
              </button>
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
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      let largest = 0;
      for (let t = y * step; t < Math.min((y + 1) * step, rows); ++t) {
        for (let s = x * step; s < Math.min((x + 1) * step, cols); ++s) largest = Math.max(largest, data[from + t * cols + s]);
      }
      const c = magnitudeOf(largest);
      image.data.set([c[0], c[1], c[2], 255], 4 * (y * width + x));
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
