// The model itself: architecture, config, parameters, cost.
import { index } from "./data";
import { Figure, Num, Wide, mark } from "./parts";
import { grouped, scaled, short } from "./format";
import { n_tokens } from "./state";
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
      how="Every value of a forward in order, with its shape. T is the number of tokens of the pass, S the number of positions so far. One layer of each kind is shown; the colour of the line tells stream, attention, MLP and norms apart.">
      {() => ({
        says: <>{index.model} has {index.layers.length} layers of {index.groups.length === 1 ? "one kind" : `${index.groups.length} kinds`} and {scaled(index.params)} parameters ({index.description}).</>,
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
                  <details open={i === 0}><summary>{range(g.layers)}, {g.layers.length} alike</summary><ul class="flow">{list(inside)}</ul></details>
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
                <div key={i} class="row-of-bar">
                  <span class="site">{v.labels![i]}</span>
                  <span class="track"><span class={`bar`} style={{ width: `${(100 * n) / of}%`, background: `var(--${({ stream: "ink" } as Record<string, string>)[kindOf(v.labels![i])] ?? kindOf(v.labels![i])})` }} {...mark("parameters.count", [i], n, "bar")} /></span>
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

export function AccountFigure() {
  return (
    <Figure id="account" title="What this text costs" wide command={`${commands.info} --phase forward`} sites={["account.flops", "account.bytes", "account.intensity", "account.layers"]}
      how={`FLOPs, bytes read and written, and their ratio for each op of one forward over ${n_tokens} tokens, in one layer of each kind. A ratio below about 10 means that memory, not arithmetic, is the limit.`}>
      {([flops, bytes, intensity, layers]) => {
        const total = Array.from(flops.data).reduce((sum, f, i) => sum + f * layers.data[i], 0);
        let best = 0;
        flops.data.forEach((f, i) => { if (f * layers.data[i] > flops.data[best] * layers.data[best]) best = i; });
        return {
          says: <>One forward over this text needs {scaled(total)} FLOPs; {short((100 * flops.data[best] * layers.data[best]) / total)} % of them are in <span class="site">{flops.labels![best]}</span>.</>,
          draws: (
            <Wide label="cost op by op">
              <table>
                <thead><tr><th class="left">op</th><th>layers</th><th>FLOPs</th><th>bytes</th><th>FLOPs per byte</th></tr></thead>
                <tbody>
                  {Array.from(flops.data, (_, i) => (
                    <tr key={i}>
                      <th scope="row" class="site">{flops.labels![i]}</th><td>{layers.data[i]}</td>
                      <td><Num site="account.flops" at={[i]} v={flops} i={i} format={scaled} /></td>
                      <td><Num site="account.bytes" at={[i]} v={bytes} i={i} format={scaled} /></td>
                      <td><Num site="account.intensity" at={[i]} v={intensity} i={i} /></td>
                    </tr>
                  ))}
                  <tr class="sum"><th scope="row">total</th><td></td><td>{scaled(total)}</td><td></td><td></td></tr>
                </tbody>
              </table>
            </Wide>
          ),
        };
      }}
    </Figure>
  );
}
