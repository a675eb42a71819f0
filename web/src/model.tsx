// The model itself: architecture, config, parameters, cost.
import { useState } from "preact/hooks";
import { scaleLog } from "d3-scale";
import { has, index, type Values } from "./data";
import { Figure, Num, Wide, mark, useValues } from "./parts";
import { grouped, scaled, short } from "./format";
import { chartWidth, n_tokens } from "./state";
import * as commands from "./commands";

const kindOf = (name: string) => (/\.ln|ln_|norm/.test(name) ? "norm" : /\.attn/.test(name) || /attn_out/.test(name) ? "attention" : /mlp/.test(name) ? "mlp" : "stream");

const range = (layers: number[]) => {
  const steps = layers.slice(1).map((l, i) => l - layers[i]);
  if (layers.length === 1) return `layer ${layers[0]}`;
  return steps.every((s) => s === 1) ? `layers ${layers[0]}–${layers[layers.length - 1]}` : `layers ${layers.slice(0, 3).join(", ")}${layers.length > 3 ? ", …" : ""}`;
};

export function ArchitectureFigure() {
  return (
    <Figure id="architecture" title="From text to the next token" command={commands.info} sites={["parameters.count"]} wide
      how="Every value of a forward in order, with its shape. T is the number of tokens of the pass, S the number of positions so far. One layer of each kind is shown; the color of the line tells stream, attention, MLP and norms apart.">
      {() => ({
        says: <>{index.model.replace(/^the /, "The ")} has {index.layers.length} layers of {index.groups.length === 1 ? "one kind" : `${index.groups.length} kinds`} and {scaled(index.params)} parameters ({index.description}).</>,
        draws: (
          <>
            {index.groups.map((g, i) => {
              const before = g.flow.filter((f, k) => !f.in_block && k < g.flow.findIndex((x) => x.in_block));
              const inside = g.flow.filter((f) => f.in_block);
              const after = g.flow.filter((f, k) => !f.in_block && k > g.flow.findIndex((x) => x.in_block));
              const list = (flow: typeof g.flow) => flow.map((f) => <li key={f.name} class={kindOf(f.name)}><span class="site">{f.name}</span><span class="site">{f.shape}</span><span class="meaning">{f.meaning}</span></li>);
              return (
                <div key={i}>
                  {i === 0 && <ul class="flow">{list(before)}</ul>}
                  <details open={i === 0}><summary>{range(g.layers)}{g.layers.length > 1 && ` (${g.layers.length} alike)`}</summary><ul class="flow">{list(inside)}</ul></details>
                  {i === index.groups.length - 1 && <ul class="flow">{list(after)}</ul>}
                </div>
              );
            })}
          </>
        ),
      })}
    </Figure>
  );
}

export function ConfigFigure() {
  return (
    <Figure id="config" title="The config" command={commands.info} sites={["parameters.count"]} how="Every size and option of the model, resolved for each kind of layer.">
      {() => ({
        says: <>The stream has {grouped(index.d_model)} elements, the vocabulary {grouped(index.vocab_size)} tokens, the context {grouped(index.max_seq_len)} positions.</>,
        draws: (
          <div class="panels">
            <Wide label="config of the model"><table><tbody>{index.config.map(([k, v]) => <tr key={k}><th scope="row">{k}</th><td class="left">{v}</td></tr>)}</tbody></table></Wide>
            {index.groups.map((g, i) => <Wide key={i} label={`config of ${range(g.layers)}`}><table><thead><tr><th class="left" colSpan={2}>{range(g.layers)}</th></tr></thead><tbody>{g.config.map(([k, v]) => <tr key={k}><th scope="row">{k}</th><td class="left">{v}</td></tr>)}</tbody></table></Wide>)}
          </div>
        ),
      })}
    </Figure>
  );
}

export function ParametersFigure() {
  return (
    <Figure id="parameters" title="Where the parameters are" command={commands.info} sites={["parameters.count"]} how="Each row is a parameter; those of equal layers are added up.">
      {([v]) => {
        const of = Math.max(...v.data);
        const largest = Array.from(v.data).indexOf(of);
        return {
          says: <>{grouped(index.params)} parameters in {scaled(index.bytes)}B as stored. The largest part, {short((100 * of) / index.params)} %, is <span class="site">{v.labels![largest].split(" ")[0]}</span>.</>,
          draws: (
            <div>
              {Array.from(v.data, (n, i) => (
                <div key={i} class="row-of-bar named">
                  <span class="site">{v.labels![i]}</span>
                  <span class="track"><span class="bar" style={{ width: `${(100 * n) / of}%`, background: `var(--${({ stream: "ink" } as Record<string, string>)[kindOf(v.labels![i])] ?? kindOf(v.labels![i])})` }} {...mark("parameters.count", [i], n, "bar")} /></span>
                  <span>{grouped(n)}</span>
                </div>
              ))}
            </div>
          ),
        };
      }}
    </Figure>
  );
}

/// Each op at its intensity and its measured speed, under the limits of the machine.
function Roofline(p: { flops: Values; intensity: Values; speed: Values; limits: Values }) {
  const W = chartWidth(), H = 300, LEFT = 70, BOTTOM = 40;
  const [peak, read] = p.limits.data;
  const shown = Array.from(p.speed.data.keys()).filter((i) => Number.isFinite(p.speed.data[i]) && p.intensity.data[i] > 0);
  const ridge = peak / read;
  const xs = shown.map((i) => p.intensity.data[i]), ys = shown.map((i) => p.speed.data[i]);
  const x = scaleLog([Math.min(...xs, ridge / 4) / 2, Math.max(...xs, ridge * 4) * 2], [LEFT, W - 20]);
  const y = scaleLog([Math.min(...ys, peak / 100) / 2, (peak || Math.max(...ys)) * 2], [H - BOTTOM, 12]);
  const [low, high] = x.domain();
  const [pointed, point] = useState(-1);
  const powers = (of: number[]) => Array.from({ length: 24 }, (_, i) => 10 ** (i - 3)).filter((t) => t >= of[0] && t <= of[1]);
  return (
    <svg viewBox={`0 0 ${W} ${H}`} width={W} role="img" aria-label="roofline">
      {powers(x.domain()).map((t) => <g key={t}><line class="axis" x1={x(t)} x2={x(t)} y1="12" y2={H - BOTTOM} /><text x={x(t)} y={H - 22} text-anchor="middle">{short(t)}</text></g>)}
      {powers(y.domain()).map((t) => <g key={t}><line class="axis" x1={LEFT} x2={W - 20} y1={y(t)} y2={y(t)} /><text x={LEFT - 8} y={y(t) + 4} text-anchor="end">{scaled(t)}</text></g>)}
      {peak > 0 && <path class="stream" d={`M${x(low)} ${y(Math.max(y.domain()[0], read * low))}L${x(ridge)} ${y(peak)}H${x(high)}`} />}
      {shown.map((i) => <circle key={i} class={`dot ${kindOf(p.flops.labels![i])}`} tabIndex={0} aria-label={p.flops.labels![i]} onMouseEnter={() => point(i)} onFocus={() => point(i)} cx={x(p.intensity.data[i])} cy={y(p.speed.data[i])} r="4" {...mark("roofline.flops_per_s", [i], p.speed.data[i], "dot")} />)}
      {pointed >= 0 && <text class="ink" x={x(p.intensity.data[pointed])} y={y(p.speed.data[pointed]) - 8} text-anchor="end">{p.flops.labels![pointed]}</text>}
      <text x={W - 20} y={H - 4} text-anchor="end">FLOPs per byte</text><text x={LEFT} y="8">FLOPs per second</text>
    </svg>
  );
}

/// `seconds` in the unit that suits them.
const duration = (s: number) => (s >= 1 ? `${short(s)} s` : s >= 1e-3 ? `${short(1e3 * s)} ms` : `${short(1e6 * s)} µs`);

function Limits() {
  const loaded = useValues(["account.flops", "account.intensity", "roofline.flops_per_s", "ceilings.per_s"], true);
  if (!loaded) return null;
  const [flops, intensity, speed, limits] = loaded as Values[];
  return (
    <div>
      <h4>Roofline: no op can be above the line</h4>
      <p class="how">This machine reads {scaled(limits.data[1])}B a second{limits.data[0] > 0 && <> and multiplies float32 matrices with {scaled(limits.data[0])} FLOPs a second</>}. Left of the bend the memory is the limit, right of it the arithmetic.</p>
      <Roofline flops={flops} intensity={intensity} speed={speed} limits={limits} />
    </div>
  );
}

export function AccountFigure() {
  return (
    <Figure id="account" title="What this text costs" wide command={`${commands.info} --phase forward`} sites={["account.flops", "account.bytes", "account.intensity", "account.layers", "time.seconds"]}
      how={<>FLOPs, bytes read and written, their ratio, and the time measured between sites, for each op of one forward over {n_tokens} tokens, in one layer of each kind. A ratio below about 10 means that memory, not arithmetic, is the limit.{!has("ceilings.per_s") && <> Start vitrine look with <code>--ceilings</code> to see the limits of the machine.</>}</>}
      note="Times are the shortest of two forwards. Where several ops lie between two sites, they share the time in proportion to their bytes.">
      {([flops, bytes, intensity, layers, seconds]) => {
        const sum = (v: Values) => Array.from(v.data).reduce((s, f, i) => s + f * layers.data[i], 0);
        const total = sum(flops), time = sum(seconds);
        const longest = Math.max(...Array.from(seconds.data, (s, i) => s * layers.data[i]), 1e-12);
        let best = 0;
        seconds.data.forEach((s, i) => { if (s * layers.data[i] > seconds.data[best] * layers.data[best]) best = i; });
        return {
          says: <>One forward over this text needs {scaled(total)} FLOPs and took {duration(time)}; {short((100 * seconds.data[best] * layers.data[best]) / time)} % of the time is in <span class="site">{flops.labels![best]}</span>.</>,
          draws: (
            <>
              <Wide label="cost op by op">
                <table>
                  <thead><tr><th class="left">op</th><th>layers</th><th>FLOPs</th><th>bytes</th><th>FLOPs per byte</th><th>time</th><th class="left">time in all layers</th></tr></thead>
                  <tbody>
                    {Array.from(flops.data, (_, i) => (
                      <tr key={i}>
                        <th scope="row" class="site">{flops.labels![i]}</th><td>{layers.data[i]}</td>
                        <td><Num site="account.flops" at={[i]} v={flops} i={i} format={scaled} /></td>
                        <td><Num site="account.bytes" at={[i]} v={bytes} i={i} format={scaled} /></td>
                        <td><Num site="account.intensity" at={[i]} v={intensity} i={i} /></td>
                        <td><Num site="time.seconds" at={[i]} v={seconds} i={i} format={duration} /></td>
                        <td class="barcell"><span class="track"><span class="bar" style={{ width: `${(100 * seconds.data[i] * layers.data[i]) / longest}%` }} /></span></td>
                      </tr>
                    ))}
                    <tr class="sum"><th scope="row">total</th><td></td><td>{scaled(total)}</td><td>{scaled(sum(bytes))}</td><td>{short(total / sum(bytes))}</td><td>{duration(time)}</td><td></td></tr>
                  </tbody>
                </table>
              </Wide>
              {has("ceilings.per_s") && <Limits />}
            </>
          ),
        };
      }}
    </Figure>
  );
}
