// The residual stream: what each sublayer adds, and how large everything is.
import { line } from "d3-shape";
import { scaleLinear, scaleLog } from "d3-scale";
import { extent } from "d3-array";
import type { Values } from "./data";
import { Figure, Num, Wide, mark, spread } from "./parts";
import { short, token } from "./format";
import { around, chartWidth, go, ids, n_layers, n_tokens } from "./state";
import * as commands from "./commands";

const H = 240, LEFT = 48, BOTTOM = 28;
const kind = (i: number) => (i % 2 ? "mlp" : "attention");

export function UpdateScaleFigure() {
  return (
    <Figure id="update-scale" title="How much each sublayer changes the stream" command={commands.trace("*.hook_attn_out", "*.hook_mlp_out", "*.hook_resid_*")} sites={["update_scale"]}
      how="Standard deviation of what a sublayer adds, relative to that of the addition and the stream together: 0 means that nothing changes, 0.71 that both are of the same size."
      note="The stream is the vector that every layer reads and adds to. Attention and the MLP are its two writers.">
      {([v]) => {
        const W = chartWidth();
        const x = scaleLinear([-0.5, n_layers - 0.5], [LEFT, W - 90]);
        const y = scaleLinear([0, 1], [H - BOTTOM, 12]);
        const ends = spread([0, 1].map((s) => y(v.data[2 * n_layers - 2 + s])));
        let best = 0;
        v.data.forEach((s, i) => { if (s > v.data[best]) best = i; });
        return {
          says: <>{best % 2 ? "The MLP" : "Attention"} of layer {Math.floor(best / 2)} changes the stream most: its share is {short(v.data[best])}.</>,
          draws: (
            <svg viewBox={`0 0 ${W} ${H}`} width={W} role="img" aria-label="update scale by layer">
              {[0, 0.25, 0.5, 0.75, 1].map((t) => <g key={t}><line class="axis" x1={LEFT} x2={W - 90} y1={y(t)} y2={y(t)} /><text x={LEFT - 8} y={y(t) + 4} text-anchor="end">{t}</text></g>)}
              {[0, 1].map((s) => <path key={s} class={kind(s)} opacity="0.5" d={line<number>((l) => x(l), (l) => y(v.data[2 * l + s]))(Array.from({ length: n_layers }, (_, l) => l))!} />)}
              {Array.from(v.data, (s, i) => <circle key={i} class={`dot ${kind(i)}`} cx={x(Math.floor(i / 2))} cy={y(s)} r="4" {...mark("update_scale", [Math.floor(i / 2), i % 2], s, "dot")} />)}
              {[0, 1].map((s) => <text key={s} class={kind(s)} x={x(n_layers - 1) + 12} y={ends[s] + 4}>{s ? "MLP" : "attention"}</text>)}
              {Array.from({ length: n_layers }, (_, l) => (n_layers <= 14 || l % 4 === 0) && <text key={l} x={x(l)} y={H - 8} text-anchor="middle">{l}</text>)}
              <text x={W - 84} y={H - 8}>layer</text>
            </svg>
          ),
        };
      }}
    </Figure>
  );
}

export function NormGrowthFigure() {
  return (
    <Figure id="norm-growth" title="What the norms prevent" command={commands.trace("*.hook_resid_*")} sites={["stream_std.with", "stream_std.without"]}
      how="Standard deviation of the input of each sublayer on a logarithmic axis, as the model is, and with every norm in the blocks replaced by the identity, until float32 overflows.">
      {([a, b]) => {
        const finite = [...a.data, ...b.data].filter((v) => Number.isFinite(v) && v > 0);
        const W = chartWidth();
        const [low, high] = finite.length > 0 ? (extent(finite) as [number, number]) : [1, 1];
        const x = scaleLinear([0, a.data.length - 1 || 1], [LEFT + 12, W - 110]);
        const y = scaleLog([low / 1.5, high * 1.5], [H - BOTTOM, 12]);
        const all = y.ticks(5);
        const ticks = all.filter((_, i) => i % Math.max(1, Math.ceil(all.length / 6)) === 0);
        const isDrawn = (s: number) => Number.isFinite(s) && s > 0;  // on a logarithmic axis
        const lastOf = (v: Values) => Array.from(v.data).findLastIndex(isDrawn);
        const last = lastOf(b);
        const label = (v: Values, text: string, dy: number, c: string) => lastOf(v) >= 0 && <text class={c} x={x(lastOf(v)) + 10} y={y(v.data[lastOf(v)]) + dy}>{text}</text>;
        const draw = (v: ArrayLike<number>, name: string, c: string) => (
          <g>
            <path class={c} d={line<number>((_, i) => x(i), (s) => y(s)).defined(isDrawn)(Array.from(v)) ?? undefined} />
            {Array.from(v, (s, i) => isDrawn(s) && <circle key={i} class={`dot ${c}`} cx={x(i)} cy={y(s)} r="3" {...mark(name, [i], s, "dot")} />)}
          </g>
        );
        return {
          says: <>With norms the stream grows from {short(a.data[0])} to {short(a.data[a.data.length - 1])}. Without them it reaches {short(last < 0 ? 0 : b.data[last])}{b.data.some(Number.isNaN) ? " and then overflows" : ""}.</>,
          draws: (
            <svg viewBox={`0 0 ${W} ${H}`} width={W} role="img" aria-label="growth of the stream">
              {ticks.map((t) => <g key={t}><line class="axis" x1={LEFT} x2={W - 110} y1={y(t)} y2={y(t)} /><text x={LEFT - 8} y={y(t) + 4} text-anchor="end">{short(t)}</text></g>)}
              {draw(a.data, "stream_std.with", "stream")}
              {draw(b.data, "stream_std.without", "norm")}
              {label(a, "as it is", 14, "ink")}
              {label(b, "without norms", 4, "")}
              <text x={LEFT + 12} y={H - 8}>first sublayer</text><text x={W - 110} y={H - 8} text-anchor="end">last</text>
            </svg>
          ),
        };
      }}
    </Figure>
  );
}

export function FinalNormFigure() {
  return (
    <Figure id="final-norm" title="The final norm, token by token" command={commands.trace("*.hook_resid_post", "unembed.hook_in")} sites={["rms.before", "rms.after"]}
      how="Root mean square of each position’s vector before and after the final norm. All bars share one scale.">
      {([before, after], { position }) => {
        const of = Math.max(...before.data, ...after.data) || 1;
        const p = position.value;
        return {
          says: <>At position {p} the final norm takes the vector from {short(before.data[p])} to {short(after.data[p])}.</>,
          draws: (
            <div>
              {around(p, 24).map((t) => (
                <div key={t} class="row-of-bar" data-token={t}>
                  <span>{t} <bdi class="token">{tokenAt(t)}</bdi></span>
                  <span>
                    <span class="track"><span class="bar" style={{ width: `${(100 * before.data[t]) / of}%`, background: "var(--ink)" }} {...mark("rms.before", [t], before.data[t], "bar")} /></span>
                    <span class="track"><span class="bar" style={{ width: `${(100 * after.data[t]) / of}%`, background: "var(--norm)" }} {...mark("rms.after", [t], after.data[t], "bar")} /></span>
                  </span>
                  <span>{short(before.data[t])} → {short(after.data[t])}</span>
                </div>
              ))}
            </div>
          ),
        };
      }}
    </Figure>
  );
}
const tokenAt = (t: number) => token(ids()[t]);

export function LedgerFigure() {
  return (
    <Figure id="ledger" title="The ledger of the stream" command={commands.trace("*.hook_resid_*", "*.hook_attn_out", "*.hook_mlp_out")} sites={["ledger.stream", "ledger.write", "ledger.cosine"]}
      how="At the selected position, for every write in order: the size (root mean square) of the stream before it and of the write, and how far the stream after it already points where it ends up (cosine with the final stream).">
      {([stream, write, cosine], { position }) => {
        const p = position.value, n = stream.shape[0];
        const of = Math.max(...Array.from({ length: n }, (_, i) => Math.max(stream.data[i * n_tokens + p], write.data[i * n_tokens + p]))) || 1;
        let half = 0;
        while (half < n - 1 && cosine.data[half * n_tokens + p] < 0.5) ++half;
        return {
          says: <>At position {p} the stream first agrees with its end by more than half (cosine {short(cosine.data[half * n_tokens + p])}) after the {half % 2 ? "MLP" : "attention"} of layer {Math.floor(half / 2)}.</>,
          draws: (
            <Wide label="writes to the stream">
              <table>
                <thead><tr><th class="left">write</th><th class="left">stream before</th><td></td><th class="left">write</th><td></td><th>cosine with the end</th></tr></thead>
                <tbody>
                  {Array.from({ length: n }, (_, i) => {
                    const at = i * n_tokens + p;
                    return (
                      <tr key={i} data-layer={Math.floor(i / 2)}>
                        <th scope="row"><button type="button" class="plain quiet" onClick={() => go({ layer: Math.floor(i / 2) })}>{Math.floor(i / 2)} {i % 2 ? "MLP" : "attention"}</button></th>
                        <td class="barcell"><span class="track"><span class="bar" style={{ width: `${(100 * stream.data[at]) / of}%`, background: "var(--ink)" }} {...mark("ledger.stream", [i, p], stream.data[at], "bar")} /></span></td>
                        <td><Num site="ledger.stream" at={[i, p]} v={stream} i={at} /></td>
                        <td class="barcell"><span class="track"><span class="bar" style={{ width: `${(100 * write.data[at]) / of}%`, background: `var(--${kind(i)})` }} {...mark("ledger.write", [i, p], write.data[at], "bar")} /></span></td>
                        <td><Num site="ledger.write" at={[i, p]} v={write} i={at} /></td>
                        <td><Num site="ledger.cosine" at={[i, p]} v={cosine} i={at} /></td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </Wide>
          ),
        };
      }}
    </Figure>
  );
}
