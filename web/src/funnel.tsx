// From logits to the next token, with sliders.
import { useMemo, useState } from "preact/hooks";
import { index, type Values } from "./data";
import { Figure, Token, mark } from "./parts";
import { percent, quoted, short } from "./format";
import { draw, funnel, uniform, type Sampling } from "./sampler";
import { after, ids } from "./state";
import * as commands from "./commands";

const P = index.position;
const command = (c: Sampling, seed: string) => commands.generate(P + 1, `--temperature ${c.temperature} --top-k ${c.top_k} --top-p ${c.top_p} --min-p ${c.min_p} --repeat-penalty ${c.repeat_penalty} --seed ${seed}`);
const reasons = ["", "cut by top-k", "cut by top-p", "cut by min-p"];
const MOST = 20;

function Slider(p: { label: string; value: number; min: number; max: number; step: number; set: (x: number) => void }) {
  return (
    <label>
      {p.label} <output>{short(p.value)}</output>
      <input type="range" min={p.min} max={p.max} step={p.step} value={p.value} onInput={(e) => p.set(Number(e.currentTarget.value))} />
    </label>
  );
}

function Funnel(p: { raw: Values; prob: Values }) {
  const [c, set] = useState<Sampling>(index.sampling);
  const [seed, setSeed] = useState(String(index.seed));
  const logits = useMemo(() => Array.from(p.raw.data, (logit, id) => ({ id, logit })), [p.raw]);
  const history = useMemo(() => new Set(ids().slice(0, P + 1)), [after.value]);
  const candidates = useMemo(() => funnel(logits, history, c), [logits, history, c]);
  const u = /^\d+$/.test(seed) ? uniform(BigInt(seed)) : 0;
  const drawn = draw(candidates, c.temperature, u);
  const asRun = c === index.sampling || JSON.stringify(c) === JSON.stringify(index.sampling);
  const change = (key: keyof Sampling) => (x: number) => set({ ...c, [key]: x });
  const rows = candidates.slice(0, MOST);
  const kept = candidates.filter((x) => x.removed === 0).length;
  return (
    <>
      <div class="sliders">
        <Slider label="temperature" value={c.temperature} min={0.05} max={2} step={0.05} set={change("temperature")} />
        <Slider label="top-k (0: off)" value={c.top_k} min={0} max={100} step={1} set={change("top_k")} />
        <Slider label="top-p" value={c.top_p} min={0.05} max={1} step={0.01} set={change("top_p")} />
        <Slider label="min-p" value={c.min_p} min={0} max={0.5} step={0.01} set={change("min_p")} />
        <Slider label="repeat penalty" value={c.repeat_penalty} min={1} max={2} step={0.05} set={change("repeat_penalty")} />
        <label>seed <input type="number" min="0" value={seed} onInput={(e) => setSeed(e.currentTarget.value)} /></label>
      </div>
      <p class="how" aria-live="polite">
        {kept} of {candidates.length} tokens are kept. The draw <span {...(seed === String(index.seed) ? mark("funnel.draw", [], u, "text") : {})}>{short(u)}</span> lands on <strong data-drawn-id={candidates[drawn].id}>{quoted(candidates[drawn].id)}</strong>.
      </p>
      <details class="aside"><summary>The command that draws the same token</summary><code class="command">{command(c, seed)}</code></details>
      {rows.map((x, i) => (
        <div key={x.id} class={`funnel-row${x.removed ? " out" : ""}${i === drawn && !x.removed ? " drawn" : ""}`}>
          <span>{i + 1}</span>
          <span {...(asRun ? mark("funnel.id", [i], x.id, "text") : {})}><Token id={x.id} /></span>
          <span class="track"><span class="bar" style={{ width: `${100 * x.prob}%` }} {...(asRun ? mark("funnel.prob", [i], p.prob.data[i], "bar") : {})} /></span>
          <span>{percent(x.prob)}</span>
          <span {...(asRun ? mark("funnel.kept", [i], x.removed, "text") : {})}>{i === drawn && !x.removed ? "drawn" : reasons[x.removed]}</span>
        </div>
      ))}
    </>
  );
}

export function FunnelFigure() {
  return (
    <Figure id="funnel" title="From probabilities to one token" command={command(index.sampling, String(index.seed))} sites={["funnel.id", "funnel.logit", "funnel.prob", "funnel.kept", "funnel.draw", `hook_logits[${P}]`]}
      how="The repeat penalty and the temperature change the probabilities; top-k, top-p and min-p then cut the tail; a random number, which the seed determines, chooses among the rest. The sliders compute over the whole vocabulary."
      note="A temperature below 1 sharpens the distribution, above 1 flattens it. The same seed always gives the same token.">
      {([id, , prob, kept, , raw]) => ({
        says: <>Of {id.data.length} possible tokens, {Array.from(kept.data).filter((k) => k === 0).length} remain after top-k, top-p and min-p; {quoted(id.data[0])} leads with {percent(prob.data[0])}.</>,
        draws: <Funnel raw={raw} prob={prob} />,
      })}
    </Figure>
  );
}
