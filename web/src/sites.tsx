// Finding a site by name: its values at the followed position.
import { useEffect, useState } from "preact/hooks";
import { index, values, type Values } from "./data";
import { mark } from "./parts";
import { short } from "./format";
import { go, site } from "./state";
import { cellOf, showCell } from "./cells";
import * as commands from "./commands";

const MOST = 40;

export function SitesFigure() {
  const [text, setText] = useState(site.value);
  const [v, setV] = useState<Values | null>(null);
  const name = site.value;
  useEffect(() => {
    let current = true;
    setV(null);
    if (name) values(name).then((x) => current && setV(x), () => {});
    return () => {
      current = false;
    };
  }, [name]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = index.values.filter((e) => words.every((w) => e.name.toLowerCase().includes(w)));
  const largest = v && v.data.length > 0 ? Array.from(v.data.keys()).filter((i) => Number.isFinite(v.data[i])).sort((a, b) => Math.abs(v.data[b]) - Math.abs(v.data[a])).slice(0, 12) : [];
  const at = (i: number, shape: number[]) => shape.reduceRight<{ rest: number; index: number[] }>((r, n) => ({ rest: Math.floor(r.rest / n), index: [r.rest % n, ...r.index] }), { rest: i, index: [] }).index;
  return (
    <figure id="sites" data-figure="sites" data-command={name ? commands.trace(name.replace(/\[.*$/, "")) : commands.trace("*")} data-drawn="">
      <h3>Any value</h3>
      <p class="says">This file holds {index.values.length} arrays. Values at sites have the names under which vitrine trace writes them; a row of one adds its index.</p>
      <p class="how">Type parts of a name, such as “3 mlp post”. In the console, vitrine.values(name) gives all elements.</p>
      <div class="find">
        <input id="find" type="search" aria-label="find a site" value={text} placeholder="find a site" onInput={(e) => setText(e.currentTarget.value)} />
        <ul>
          {found.slice(0, MOST).map((e) => <li key={e.name}><button type="button" class="plain" aria-pressed={e.name === name} onClick={() => go({ site: e.name })}>{e.name} [{e.shape.join(", ")}]{e.exact ? "" : " ≈"}</button></li>)}
          {found.length > MOST && <li class="how">and {found.length - MOST} more</li>}
        </ul>
        {v && (
          <div>
            <h4 class="site">{name} [{v.shape.join(", ")}]</h4>
            <table>
              <thead><tr><th class="left">largest elements</th><th>value</th></tr></thead>
              <tbody>{largest.map((i) => <tr key={i}><th scope="row" class="site">{cellOf(name, at(i, v.shape)) ? <button type="button" class="plain site" aria-label={`how was ${cellOf(name, at(i, v.shape))} made?`} onClick={() => showCell(cellOf(name, at(i, v.shape)))}>[{at(i, v.shape).join(", ")}]</button> : `[${at(i, v.shape).join(", ")}]`}</th><td><span {...mark(name, at(i, v.shape), v.data[i], "text", v.data instanceof Float32Array)}>{short(v.data[i])}</span></td></tr>)}</tbody>
            </table>
          </div>
        )}
      </div>
    </figure>
  );
}
