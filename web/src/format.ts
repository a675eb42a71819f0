// Numbers and tokens as text.
import { format } from "d3-format";
import { index } from "./data";

const plain = format(".3~r");
const digits = format(".3r");
const superscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/// Three significant digits, with a true minus; whole numbers in full.
export function short(x: number): string {
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
  const size = Math.abs(x);
  const sign = x < 0 ? "−" : "";
  if (Number.isInteger(size) && size < 1e6) return sign + grouped(size);
  if (size >= 1e-3 && size < 1e6) return sign + digits(size);
  const [mantissa, power] = size.toExponential(2).split("e");
  const exponent = (power.startsWith("-") ? "⁻" : "") + Array.from(power.replace(/^[+-]/, ""), (d) => superscripts[Number(d)]).join("");
  return `${sign}${mantissa === "1.00" ? "" : `${mantissa}\u00a0·\u00a0`}10${exponent}`;
}

export const percent = (p: number): string => (p >= 0.9995 && p < 1 ? "> 99.9" : short(100 * p)) + "\u00a0%";

/// Of numbers from −1 to 1, as wide as each other.
export const fixed = (x: number): string => (Number.isNaN(x) ? "–" : x.toFixed(3).replace("-", "−"));

export const grouped = (n: number): string => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");

const units = ["", "k", "M", "G", "T"];
export function scaled(x: number): string {
  let unit = 0;
  for (; x >= 999.5 && unit + 1 < units.length; ++unit) x /= 1000;
  return `${plain(x)}${unit ? " " + units[unit] : ""}`;
}

/// The shortest decimal that reads back as the same number.
export function exactly(x: number, single: boolean): string {
  if (!single || !Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x === Infinity ? "inf" : x === -Infinity ? "-inf" : String(x);
  for (let digits = 1; digits <= 9; ++digits) {
    const text = x.toPrecision(digits);
    if (Math.fround(Number(text)) === x) return String(Number(text));
  }
  return String(x);
}

const controls: Record<string, string> = { "\n": "⏎", "\t": "⇥", "\r": "␍", "\u007f": "␡" };

/// A token as people read it: a space is a raised dot, a line break ⏎, another control character its picture.
export function shown(text: string): string {
  let result = "";
  for (const c of text) {
    const code = c.codePointAt(0)!;
    if (c === " ") result += "·";
    else if (controls[c]) result += controls[c];
    else if (code < 32) result += String.fromCodePoint(0x2400 + code);
    else if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code === 0x200e || code === 0x200f)
      result += `U+${code.toString(16).toUpperCase()}`;
    else result += c;
  }
  return result || "∅";
}

export const piece = (id: number): string => index.pieces[id] ?? `#${id}`;
export const token = (id: number): string => shown(piece(id));
/// In a sentence.
export const quoted = (id: number): string => `“${token(id)}”`;

const utf8 = new TextEncoder();

/// The bytes of a token in hexadecimal: `20 4c 69`.
export function bytesOf(id: number): string {
  const bytes: number[] = [];
  for (const part of piece(id).split(/(\\x[0-9A-F]{2})/)) {
    if (/^\\x[0-9A-F]{2}$/.test(part)) bytes.push(parseInt(part.slice(2), 16));
    else bytes.push(...utf8.encode(part));
  }
  return bytes.map((b) => b.toString(16).padStart(2, "0")).join(" ");
}
