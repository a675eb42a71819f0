// The two ramps, in OKLab between the theme's colors: steps of equal lightness.
import { dark } from "./state";

type Color = [number, number, number];

const linear = (x: number) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
const coded = (x: number) => 255 * Math.max(0, Math.min(1, x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055));

function lab(hex: string): Color {
  const [r, g, b] = [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function rgb([L, a, b]: Color): Color {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    coded(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    coded(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    coded(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

const variable = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function ramp(end: string): Color[] {
  const from = lab(variable("--paper"));
  const to = lab(variable(end));
  return Array.from({ length: 256 }, (_, i) => rgb(from.map((x, k) => x + ((to[k] - x) * i) / 255) as Color));
}

let scheme: boolean | undefined;
let magnitude: Color[] = [];
let positive: Color[] = [];
let negative: Color[] = [];

function refresh() {
  if (scheme === dark.value) return;
  scheme = dark.value;
  magnitude = ramp("--magnitude");
  positive = ramp("--positive");
  negative = ramp("--negative");
}

/// Of a number from 0 to 1; a value that does not exist has the color of 0.
export function magnitudeOf(x: number): Color {
  refresh();
  return magnitude[Math.round(255 * Math.max(0, Math.min(1, x || 0)))];
}
/// Of a number from −1 to 1.
export function signOf(x: number): Color {
  refresh();
  return (x < 0 ? negative : positive)[Math.round(255 * Math.min(1, Math.abs(x || 0)))];
}
export const css = (c: Color): string => `rgb(${c.map(Math.round).join(" ")})`;

/// Black or white, whichever is easier to read: at least 4.58 : 1 on any color.
export function textOn(c: Color): string {
  const [r, g, b] = c.map((x) => linear(x / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}
