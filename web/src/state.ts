// What all figures share: the selected position, layer and head, the enlarged map, and the link that restores them.
import { batch, effect, signal } from "@preact/signals";
import { has, index } from "./data";

export const position = signal(index.position);
export const layer = signal(0);
export const head = signal(0);
export const enlarged = signal(false);
export const cursor = signal<[number, number]>([index.position, 0]);
export const keysShown = signal(false);
export const site = signal("");
/// The value whose making is shown.
export const cell = signal("");
/// What the maps are sorted by: "" for layers, else a score of heads.
export const sort = signal("");
/// Whether the changed run is shown.
export const after = signal(false);

/// Whether a media query holds.
function matching(query: string) {
  const list = matchMedia(query);
  const result = signal(list.matches);
  list.addEventListener("change", (e) => (result.value = e.matches));
  return result;
}
export const dark = matching("(prefers-color-scheme: dark)");
export const narrow = matching("(max-width: 699px)");
export const wide = matching("(min-width: 1100px)");
const very_wide = matching("(min-width: 1600px)");

/// The width of a chart whose labels stay readable.
export const chartWidth = () => (narrow.value ? 350 : 560);
/// The columns of a table that are in view without scrolling.
export const tableColumns = () => (narrow.value ? 3 : very_wide.value ? 16 : wide.value ? 10 : 7);

const clamp = (x: number, n: number) => Math.max(0, Math.min(n - 1, Math.round(x)));
export const n_tokens = index.ids.length;
export const n_layers = index.layers.length;
/// The positions that a wide figure shows: at most `most`, around the selected one.
export function around(position: number, most: number): number[] {
  const n = Math.min(n_tokens, most);
  const first = Math.max(0, Math.min(n_tokens - n, position - Math.floor(most / 2)));
  return Array.from({ length: n }, (_, i) => first + i);
}
/// The ids of the run that is shown.
export const ids = () => (after.value && index.after ? index.after.ids : index.ids);
/// The name of an array of the run that is shown.
export const named = (name: string) => (after.value && has(`after:${name}`) ? `after:${name}` : name);
export const headsOf = (l: number) => index.layers[l].heads || 1;

export interface State {
  position: number;
  layer: number;
  head: number;
  enlarged: boolean;
  cursor: [number, number];
  site: string;
  cell: string;
  sort: string;
  after: boolean;
}

export const state = (): State => ({
  position: position.value,
  layer: layer.value,
  head: head.value,
  enlarged: enlarged.value,
  cursor: cursor.value,
  site: site.value,
  cell: cell.value,
  sort: sort.value,
  after: after.value,
});

export const go = (to: Partial<State>) => batch(() => change(to));

function change(to: Partial<State>) {
  if (to.position !== undefined) position.value = clamp(to.position, n_tokens);
  if (to.layer !== undefined) layer.value = clamp(to.layer, n_layers);
  head.value = clamp(to.head ?? head.value, headsOf(layer.value));
  if (to.enlarged !== undefined) enlarged.value = to.enlarged;
  if (to.cursor !== undefined) cursor.value = [clamp(to.cursor[0], n_tokens), clamp(to.cursor[1], n_tokens)];
  if (to.site !== undefined) site.value = to.site;
  if (to.cell !== undefined) cell.value = to.cell;
  if (to.sort !== undefined) sort.value = to.sort;
  if (to.after !== undefined) after.value = to.after && index.after !== null;
}

export function fragment(figure = ""): string {
  const s = state();
  const parts = [`p=${s.position}`, `l=${s.layer}`, `h=${s.head}`];
  if (s.enlarged) parts.push(`map=${s.cursor.join(",")}`);
  if (s.site) parts.push(`site=${encodeURIComponent(s.site)}`);
  if (s.cell) parts.push(`cell=${encodeURIComponent(s.cell)}`);
  if (s.sort) parts.push(`sort=${s.sort}`);
  if (s.after) parts.push("run=after");
  if (figure) parts.push(`figure=${figure}`);
  return "#" + parts.join("&");
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (key: string) => (parts.has(key) ? Number(parts.get(key)) || 0 : undefined);
  const map = parts.get("map")?.split(",").map(Number);
  go({
    position: number("p"),
    layer: number("l"),
    head: number("h"),
    enlarged: map !== undefined,
    ...(map && map.length === 2 ? { cursor: [map[0] || 0, map[1] || 0] as [number, number] } : {}),
    site: parts.get("site") ?? "",
    cell: parts.get("cell") ?? "",
    sort: parts.get("sort") ?? "",
    after: parts.get("run") === "after",
  });
  return parts.get("figure");
}

/// The fragment follows the state; returns the figure that the link names.
export function followLink(): string | null {
  const figure = restore();
  addEventListener("hashchange", () => {
    if (location.hash !== fragment()) {
      const to = restore();
      if (to) document.getElementById(to)?.scrollIntoView();
    }
  });
  effect(() => {
    const link = fragment();
    if (location.hash !== link) history.replaceState(null, "", link);
  });
  return figure;
}
