// Hovering or focusing a token, a head or a layer highlights it in all figures.

const names = ["token", "head", "layer"] as const;
let shown = "";

function show(selector: string) {
  if (selector === shown) return;
  for (const e of document.querySelectorAll(".lit")) e.classList.remove("lit");
  shown = selector;
  if (selector) for (const e of document.querySelectorAll(selector)) e.classList.add("lit");
}

function follow(e: Event) {
  const data = (e.target as Element).closest<HTMLElement>(names.map((name) => `[data-${name}]`).join())?.dataset;
  const name = names.find((n) => data?.[n] !== undefined);
  show(name ? `[data-${name}="${data![name]}"]` : "");
}

export function startHighlighting() {
  addEventListener("mouseover", follow);
  addEventListener("focusin", follow);
  addEventListener("focusout", () => show(""));
}
