// A figure as a picture: what the browser shows of it, as SVG or as PNG. A page that may request nothing cannot draw an
// SVG on a canvas, so both are made from the same list of shapes.
import { css, magnitudeOf, signOf } from "./color";

interface Box { x: number; y: number; width: number; height: number }
type Shape =
  | { kind: "path"; path: string; matrix: DOMMatrix; fill: string; stroke: string; width: number; dash: string; opacity: string }
  | { kind: "text"; text: string; x: number; y: number; font: string; fill: string }
  | { kind: "map"; canvas: HTMLCanvasElement; box: Box };

const STEPS = 32;  // of a ramp
const measure = document.createElement("canvas").getContext("2d")!;
const escaped = (text: string) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const rectangle = (b: Box) => `M${b.x} ${b.y}h${b.width}v${b.height}h${-b.width}Z`;

function pathOf(e: Element): string | null {
  const at = (name: string) => Number(e.getAttribute(name) ?? 0);
  switch (e.localName) {
    case "path": return e.getAttribute("d");
    case "line": return `M${at("x1")} ${at("y1")}L${at("x2")} ${at("y2")}`;
    case "rect": return rectangle({ x: at("x"), y: at("y"), width: at("width"), height: at("height") });
    case "circle": return `M${at("cx") - at("r")} ${at("cy")}a${at("r")} ${at("r")} 0 1 0 ${2 * at("r")} 0a${at("r")} ${at("r")} 0 1 0 ${-2 * at("r")} 0`;
    default: return null;
  }
}

/// The parts of a text that are on one line each.
function* linesOf(node: Text): Generator<{ text: string; box: DOMRect }> {
  const range = document.createRange();
  range.selectNodeContents(node);
  const one = range.getClientRects().length < 2;
  const words = one ? [node.data] : node.data.split(/(?<=\s)/);
  let from = 0;
  for (const text of words) {
    range.setStart(node, from);
    range.setEnd(node, (from += text.length));
    const box = range.getBoundingClientRect();
    if (text.trim() && box.width > 0) yield { text: text.trim(), box };
  }
}

function shapesOf(root: HTMLElement): Shape[] {
  const shapes: Shape[] = [];
  const origin = root.getBoundingClientRect();
  const add = (e: Element) => {
    if (e.localName === "details" || !e.checkVisibility()) return;
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    const matrix = new DOMMatrix().translate(-origin.x, -origin.y);
    const none = { stroke: "none", width: 0, dash: "none", opacity: style.opacity };
    const path = e instanceof SVGElement ? pathOf(e) : null;
    if (path !== null) {
      shapes.push({ kind: "path", path, matrix: matrix.multiply((e as SVGGraphicsElement).getScreenCTM()!), fill: style.fill, stroke: style.stroke, width: parseFloat(style.strokeWidth), dash: style.strokeDasharray, opacity: style.opacity });
    } else if (e instanceof HTMLCanvasElement) {
      shapes.push({ kind: "map", canvas: e, box: { x: box.x - origin.x, y: box.y - origin.y, width: box.width, height: box.height } });
    } else if (e.matches(".scale")) {
      const colorOf = e.matches(".sign") ? (x: number) => signOf(2 * x - 1) : magnitudeOf;
      const width = box.width / STEPS;
      for (let i = 0; i < STEPS; ++i) shapes.push({ kind: "path", path: rectangle({ x: box.x + i * width, y: box.y, width, height: box.height }), matrix, fill: css(colorOf(i / (STEPS - 1))), ...none });
    } else if (e instanceof HTMLElement && !/, 0\)$|transparent/.test(style.backgroundColor)) {
      shapes.push({ kind: "path", path: rectangle(box), matrix, fill: style.backgroundColor, ...none });
    }
    for (const child of e.childNodes) {
      if (child instanceof Element) add(child);
      if (!(child instanceof Text) || e.localName === "title") continue;
      const font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      measure.font = font;
      const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = measure.measureText("x");
      for (const line of linesOf(child)) {
        const y = line.box.y - origin.y + (line.box.height * up) / (up + down);
        shapes.push({ kind: "text", text: line.text, x: line.box.x - origin.x, y, font, fill: e instanceof SVGElement ? style.fill : style.color });
      }
    }
  };
  add(root);
  return shapes;
}

const paper = () => getComputedStyle(document.body).backgroundColor;

export function svgOf(root: HTMLElement): string {
  const { width, height } = root.getBoundingClientRect();
  const parts = shapesOf(root).map((s) => {
    if (s.kind === "map") return `<image x="${s.box.x}" y="${s.box.y}" width="${s.box.width}" height="${s.box.height}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${s.canvas.toDataURL()}"/>`;
    if (s.kind === "text") return `<text x="${s.x}" y="${s.y}" fill="${s.fill}" style="font:${escaped(s.font)}">${escaped(s.text)}</text>`;
    const { a, b, c, d, e, f } = s.matrix;
    return `<path d="${s.path}" transform="matrix(${[a, b, c, d, e, f]})" fill="${s.fill}" stroke="${s.stroke}" stroke-width="${s.width}" stroke-dasharray="${s.dash}" opacity="${s.opacity}"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="${paper()}"/>${parts.join("")}</svg>`;
}

export function pngOf(root: HTMLElement): Promise<Blob> {
  const { width, height } = root.getBoundingClientRect();
  const scale = 2;
  const canvas = document.createElement("canvas");
  canvas.width = width * scale;
  canvas.height = height * scale;
  const to = canvas.getContext("2d")!;
  to.fillStyle = paper();
  to.fillRect(0, 0, canvas.width, canvas.height);
  to.imageSmoothingEnabled = false;
  for (const s of shapesOf(root)) {
    const matrix = s.kind === "path" ? s.matrix : new DOMMatrix();
    to.setTransform(new DOMMatrix().scale(scale).multiply(matrix));
    to.globalAlpha = s.kind === "path" ? Number(s.opacity) : 1;
    if (s.kind === "map") {
      to.drawImage(s.canvas, s.box.x, s.box.y, s.box.width, s.box.height);
    } else if (s.kind === "text") {
      to.font = s.font;
      to.fillStyle = s.fill;
      to.fillText(s.text, s.x, s.y);
    } else {
      const path = new Path2D(s.path);
      to.setLineDash(s.dash === "none" ? [] : s.dash.split(/[ ,]+/).map(parseFloat));
      to.lineWidth = s.width;
      if (s.fill !== "none") { to.fillStyle = s.fill; to.fill(path); }
      if (s.stroke !== "none") { to.strokeStyle = s.stroke; to.stroke(path); }
    }
  }
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the figure is too large for a picture")))));
}
