// From logits to the next token, with sliders.
import { useMemo, useState } from "preact/hooks";
import { index, type SamplingOption, type Values } from "./data";
import { Figure, Token, mark } from "./parts";
import { percent, quoted, short } from "./format";
import { draw, funnel, uniform, type Sampling } from "./sampler";
import { after, ids } from "./state";
import * as commands from "./commands";

const P = index.position;
const label = (option: string) => option.replaceAll("_", "-");
const named = (c: Sampling) => index.sampling_options.filter((o) => !o.is_rare || c[o.name] !== o.default);
const command = (c: Sampling, seed: string) => commands.generate(P + 1, `${named(c).map((o) => `--${label(o.name)} ${c[o.name]} `).join("")}--seed ${seed}`);
const filters = index.filters.map(label);
const MOST = 20;

/// An option without a largest value goes to 2, a whole number to 100; at a temperature of 0 nothing is drawn.
function Slider(p: { option: SamplingOption; value: number; set: (x: number) => void }) {
  const { option: o, value } = p;
  const step = o.is_whole ? 1 : o.highest === 1 ? 0.005 : 0.05;
  const min = o.is_above || o.name === "temperature" ? step : o.lowest;
  return (
    <label>
      {label(o.name)}{o.is_whole && " (0: off)"} <output>{short(value)}</output>
      <input type="range" min={min} max={Math.max(value, o.highest ?? (o.is_whole ? 100 : 2))} step={step} value={value} onInput={(e) => p.set(Number(e.currentTarget.value))} />
    </label>
  );
}

function Funnel(p: { raw: Values; prob: Values }) {
  const [c, set] = useState<Sampling>(index.sampling);
  const [seed, setSeed] = useState(String(index.seed));
  const logits = useMemo(() => Array.from(p.raw.data, (logit, id) => ({ id, logit })), [p.raw]);
  const history = useMemo(() => new Set(ids().slice(0, P + 1)), [after.value]);
  const candidates = useMemo(() => funnel(logits, history, c, index.filters), [logits, history, c]);
  const u = /^\d+$/.test(seed) ? uniform(BigInt(seed)) : 0;
  const drawn = draw(candidates, u);
  const asRun = c === index.sampling || JSON.stringify(c) === JSON.stringify(index.sampling);
  const rows = candidates.slice(0, MOST);
  const kept = candidates.filter((x) => x.removed === 0).length;
  return (
    <>
      <div class="sliders">
        {index.sampling_options.map((o) => <Slider key={o.name} option={o} value={c[o.name]} set={(x) => set({ ...c, [o.name]: x })} />)}
        <label>seed <input type="number" min="0" value={seed} onInput={(e) => setSeed(e.currentTarget.value)} /></label>
      </div>
      <p class="how" aria-live="polite">
        {kept} of {candidates.length} tokens are kept. The draw <span {...(seed === String(index.seed) ? mark("funnel.draw", [], u, "text") : {})}>{short(u)}</span> lands on <strong data-drawn-id={drawn.id}>{quoted(drawn.id)}</strong>.
      </p>
      <details class="aside"><summary>The command that draws the same token</summary><code class="command">{command(c, seed)}</code></details>
      {rows.map((x, i) => (
        <div key={x.id} class={`funnel-row${x.removed ? " out" : ""}${x === drawn ? " drawn" : ""}`}>
          <span>{i + 1}</span>
          <span {...(asRun ? mark("funnel.id", [i], x.id, "text") : {})}><Token id={x.id} /></span>
          <span class="track"><span class="bar" style={{ width: `${100 * x.prob}%` }} {...(asRun ? mark("funnel.prob", [i], p.prob.data[i], "bar") : {})} /></span>
          <span>{percent(x.prob)}</span>
          <span {...(asRun ? mark("funnel.kept", [i], x.removed, "text") : {})}>{x === drawn ? "drawn" : x.removed ? `cut by ${filters[x.removed - 1]}` : ""}</span>
        </div>
      ))}
    </>
  );
}

export function FunnelFigure() {
  return (
    <Figure id="funnel" title="From probabilities to one token" command={command(index.sampling, String(index.seed))} sites={["funnel.id", "funnel.logit", "funnel.prob", "funnel.kept", "funnel.draw", `hook_logits[${P}]`]}
      how={`The repeat penalty and the temperature change the probabilities; the filters then remove tokens, each from what those before it have left: ${filters.join(", ")}. A random number, which the seed determines, chooses among the rest. The sliders compute over the whole vocabulary.`}
      note="A temperature below 1 sharpens the distribution, above 1 flattens it. The same seed always gives the same token.">
      {([id, , prob, kept, , raw]) => ({
        says: <>Of {id.data.length} possible tokens, {Array.from(kept.data).filter((k) => k === 0).length} remain after the filters; {quoted(id.data[0])} leads with {percent(prob.data[0])}.</>,
        draws: <Funnel raw={raw} prob={prob} />,
      })}
    </Figure>
  );
}
