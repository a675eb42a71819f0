// How was this number made: formula, operands, and the value that contributed most, back to the text.
import { useMemo, useState } from "preact/hooks";
import { index, read, type CellAbout, type Values } from "./data";
import { Figure } from "./parts";
import { quoted, short } from "./format";
import { cell, go } from "./state";
import * as commands from "./commands";

const byName = new Map(index.cells.map((c) => [c.name, c]));

export interface Term {
  of: string;
  index: number[];
  value: number;
}

const unflatten = (flat: number, shape: number[]) => shape.reduceRight<{ rest: number; at: number[] }>((r, n) => ({ rest: Math.floor(r.rest / n), at: [r.rest % n, ...r.at] }), { rest: flat, at: [] }).at;

export function termsOf(c: CellAbout, v: Values): Term[] {
  let k = 0;
  return (c.groups ?? []).flatMap((g) => Array.from({ length: g.n }, (_, i) => ({ of: g.of, index: unflatten(g.first + i * g.step, g.shape), value: v.data[k++] })));
}

/// The element of a site that an element of an array is; "" for an array that is no site of the text's run.
export function cellOf(array: string, at: number[]): string {
  const [, site, all, row] = /^([\w.]*hook_\w+)(?:\[(:,)?(\d+)\])?$/.exec(array) ?? [];
  if (!site || /^run\./.test(array)) return "";
  const index = row === undefined ? at : all ? [at[0], Number(row), ...at.slice(1)] : [Number(row), ...at];
  return `${site}[${index.join(",")}]`;
}

/// Shows how a value was made.
export function showCell(name: string) {
  if (!name) return;
  go({ cell: name });
  document.getElementById("cell")?.scrollIntoView();
}

const indexOf = (name: string) => name.slice(name.indexOf("[") + 1, -1).split(",").map(Number);
const label = (t: Term) => `${t.of}[${t.index.join(",")}]`;
const MOST = 8;

function Operands(p: { c: CellAbout; v: Values; open: (name: string) => void }) {
  const terms = termsOf(p.c, p.v);
  const groups = p.c.groups ?? [];
  const isProduct = groups.length > 1 && groups[0].n > 1 && groups[1].n === groups[0].n;
  const Name = ({ t }: { t: Term }) => (byName.has(label(t)) ? <button type="button" class="plain site" onClick={() => p.open(label(t))}>{label(t)}</button> : <span class="site">{label(t)}</span>);
  if (!isProduct) {
    const shown = terms.length > 12 ? [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, MOST) : terms;
    return (
      <table>
        <tbody>
          {shown.map((t) => <tr key={label(t)}><th scope="row"><Name t={t} /></th><td>{short(t.value)}</td></tr>)}
          {shown.length < terms.length && <tr><th scope="row">{terms.length - shown.length} smaller operands</th><td></td></tr>}
        </tbody>
      </table>
    );
  }
  const n = groups[0].n;
  const pairs = Array.from({ length: n }, (_, i) => [terms[i], terms[n + i], terms[i].value * terms[n + i].value] as const).sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  const shown = pairs.slice(0, MOST);
  const rest = pairs.slice(MOST).reduce((sum, [, , x]) => sum + x, 0);
  return (
    <table>
      <thead><tr><th class="left" colSpan={2}>operand</th><th class="left" colSpan={2}>times</th><th>product</th></tr></thead>
      <tbody>
        {shown.map(([a, b, x]) => <tr key={label(a)}><th scope="row"><Name t={a} /></th><td>{short(a.value)}</td><td class="left"><Name t={b} /></td><td>{short(b.value)}</td><td>{short(x)}</td></tr>)}
        {n > MOST && <tr><th scope="row">{n - MOST} smaller products</th><td></td><td></td><td></td><td>{short(rest)}</td></tr>}
        {terms.length > 2 * n && <tr><th scope="row"><Name t={terms[2 * n]} /></th><td></td><td></td><td></td><td>{short(terms[2 * n].value)}</td></tr>}
      </tbody>
    </table>
  );
}

function Cells(p: { values: Values[] }) {
  const start = useMemo(() => byName.get(`hook_logits[${index.position},${index.predicted[index.position]}]`) ?? index.cells[index.cells.length - 1], []);
  const [before, setBefore] = useState<string[]>([]);
  const name = cell.value || start.name;
  const c = byName.get(name);
  const v = c && p.values[index.cells.indexOf(c)];
  const trail: CellAbout[] = [];
  for (let next: CellAbout | undefined = start; next && trail.length < 400; next = byName.get(next.parents?.[0] ?? "")) trail.push(next);
  const open = (to: string) => { setBefore([...before, name]); go({ cell: to }); };
  return (
    <div class="cells">
      <div>
        <h4>From the predicted logit back to the text</h4>
        <ol class="trail">
          {trail.map((t) => <li key={t.name}><button type="button" class="plain site" aria-pressed={t.name === name} onClick={() => { setBefore([]); go({ cell: t.name }); }}>{t.name}</button><span data-cell={t.name}>{short(t.value)}</span></li>)}
        </ol>
      </div>
      <div class="spelled">
        <h4 class="site">{name}</h4>
        {c ? (
          <>
            <p class="says"><span data-cell={c.name}>{short(c.value)}</span>{c.result !== undefined && <span class="how"> spelled out: {short(c.result)}</span>}</p>
            {c.formula !== undefined && <p class="formula" dangerouslySetInnerHTML={{ __html: index.formulas[c.formula] }} />}
            {c.text && <p class="site arithmetic">{c.text}</p>}
            {v && <Operands c={c} v={v} open={open} />}
            {c.op === "linear" && index.products !== "f32" && <p class="how">The model multiplies the weight by the input rounded to {index.products === "int8" ? "8 bits" : "bfloat16"}, so its value differs a little from the arithmetic.</p>}
            {c.file && <p class="how">computed in {c.file}</p>}
          </>
        ) : (
          <p class="how">This value is not spelled in this file. A page in which it is: <code class="command">{commands.spell(name)}</code></p>
        )}
        {before.length > 0 && <button type="button" class="plain" onClick={() => { go({ cell: before[before.length - 1] }); setBefore(before.slice(0, -1)); }}>back to {before[before.length - 1]}</button>}
      </div>
    </div>
  );
}

export function CellFigure() {
  const names = index.cells.map((c) => `cell:${c.name}`);
  const spelled = index.cells.filter((c) => c.groups);
  const logit = byName.get(`hook_logits[${index.position},${index.predicted[index.position]}]`);
  return (
    <Figure id="cell" title="How was this number made?" wide command={commands.trace("*")} sites={names.filter((n) => spelled.some((c) => `cell:${c.name}` === n)).slice(0, 1)}
      absent={index.cells.length === 0 && (index.has_adapter ? "The values of a model with an adapter are not spelled. vitrine look without --adapter spells those of the model alone." : `This file has no spelled values${index.left_out[0]?.option ? `; ${index.left_out[0].option} adds them` : ""}.`)}
      how={`Each value of the trail is computed from the one below it and others: the engine spells formula and operands. ${index.cells.length} values of this run are spelled, among them the four largest of every site at position ${index.position}; select one to follow it.`}>
      {() => ({
        says: logit ? <>The logit of {quoted(indexOf(logit.name)[1])} is {short(logit.value)}.</> : <>{index.cells.length} values are spelled.</>,
        draws: <Cells values={index.cells.map((c) => read(`cell:${c.name}`)!)} />,
      })}
    </Figure>
  );
}
