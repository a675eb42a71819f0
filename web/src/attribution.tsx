// Which components and heads wrote the predicted logit, and where a changed word matters.
import { index, type Values } from "./data";
import { Figure, Ramp, Token, Wide, mark } from "./parts";
import { short } from "./format";
import { css, signOf, textOn } from "./color";
import { after, around, dark, go, n_tokens, tableColumns } from "./state";
import * as commands from "./commands";

const kindOf = (name: string) => (name.includes("attn") ? "attention" : name.includes("mlp") ? "mlp" : name.includes("norm") ? "norm" : "ink");
/// The most likely token after the followed position.
const target = () => ((after.value && index.after) || index).predicted[index.position];

export function Terms(p: { v: Values }) {
  const of = Math.max(...Array.from(p.v.data, Math.abs), 1e-12);
  return (
    <div>
      {Array.from(p.v.data, (x, i) => (
        <div key={i} class="row-of-bar signed">
          <span class="site">{p.v.labels![i]}</span>
          <span class="both">
            <span class="track negative">{x < 0 && <span class="bar" style={{ width: `${(100 * -x) / of}%`, background: "var(--negative)" }} {...mark("attribution.component", [i], x, "bar")} />}</span>
            <span class="track">{x >= 0 && <span class="bar" style={{ width: `${(100 * x) / of}%`, background: "var(--positive)" }} {...mark("attribution.component", [i], x, "bar")} />}</span>
          </span>
          <span style={{ color: `var(--${kindOf(p.v.labels![i])})` }}>{short(x)}</span>
        </div>
      ))}
    </div>
  );
}

/// Layers by `columns`, which are heads or positions.
export function Grid(p: { v: Values; site: string; columns: number[]; head: (c: number) => preact.ComponentChildren; of: number; heads?: boolean; select?: (l: number, c: number) => void; on?: (l: number, c: number) => boolean }) {
  void dark.value;
  const [L, C] = p.v.shape;
  return (
    <table class="heat">
      <thead><tr><td></td>{p.columns.map((c) => <th key={c} scope="col">{p.head(c)}</th>)}</tr></thead>
      <tbody>
        {Array.from({ length: L }, (_, l) => (
          <tr key={l}>
            <th scope="row" class="left" data-layer={l}>layer {l}</th>
            {p.columns.map((i) => {
              const x = p.v.data[l * C + i];
              const c = signOf(Number.isFinite(x) ? x / p.of : 0);
              return <td key={i} data-head={p.heads ? `${l}.${i}` : undefined} data-token={p.heads ? undefined : i} class={`cell${p.on?.(l, i) ? " on" : ""}`} style={{ background: css(c), color: textOn(c) }} onClick={() => p.select?.(l, i)} {...mark(p.site, [l, i], x, "cell")}>{short(x)}</td>;
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function AttributionFigure() {
  return (
    <Figure id="attribution" title="Who wrote the prediction" command={commands.of("attribute", `--token '#${target()}' --position ${index.position} --by head `, "*.hook_resid_post", "*.hook_attn_out", "*.hook_mlp_out")} sites={["attribution.component", "attribution.head"]}
      how="The last vector is the sum of what the embedding and every sublayer wrote. With the divisor of the final norm held fixed, each has a share of the predicted token’s logit before scale and softcap; the shares add up to it."
      note="Direct attribution counts only what a component writes to the end itself, not what later layers make of it.">
      {([component, heads], { layer, head }) => {
        const sum = Array.from(component.data).reduce((a, b) => a + b, 0);
        let best = 0;
        component.data.forEach((x, i) => { if (x > component.data[best]) best = i; });
        const of = Math.max(...Array.from(heads.data).filter(Number.isFinite).map(Math.abs), 1e-12);
        return {
          says: <>The largest share is that of <span class="site">{component.labels![best]}</span>: {short(component.data[best])} of {short(sum)}.</>,
          draws: (
            <div class="panels pair">
              <div><h4>Components</h4><Terms v={component} /></div>
              <div><h4>Heads</h4><Ramp low={`−${short(of)}`} high={short(of)} sign /><Wide label="shares of the heads"><Grid v={heads} site="attribution.head" heads of={of} columns={Array.from({ length: heads.shape[1] }, (_, h) => h)} head={(h) => `head ${h}`} select={(l, h) => go({ layer: l, head: h })} on={(l, h) => layer.value === l && head.value === h} /></Wide></div>
            </div>
          ),
        };
      }}
    </Figure>
  );
}

export function PatchFigure() {
  return (
    <Figure id="patch" title="Where a changed word matters" wide command={commands.patch(index.predicted[n_tokens - 1])} sites={["patch.recovered", "patch.metric", "patch.corrupted.id", "patch.ends"]}
      absent={!index.values.some((e) => e.name === "patch.recovered") && "Start vitrine look with --corrupted and another text of the same length to see which values carry the difference."}
      how="The corrupted text is run again and again, each time with one vector of the stream replaced by that of the original text. 1 means that this vector alone restores the prediction, 0 that it changes nothing.">
      {([recovered, , ids, ends], { position }) => {
        const first = Array.from(recovered.data.slice(0, n_tokens));
        const best = first.indexOf(Math.max(...first));
        return {
          says: ends.data[0] === ends.data[1] ? <>The logit is {short(ends.data[0])} for both texts, so there is no difference to restore.</> : <>The logit is {short(ends.data[0])} for the text and {short(ends.data[1])} for the corrupted one. In layer 0, position {best} restores most of the difference.</>,
          draws: (
            <>
              <Ramp low="−1" high="1" sign />
              <Wide label="recovered by layer and position">
                <Grid v={recovered} site="patch.recovered" of={1} columns={around(position.value, tableColumns())} select={(l, t) => go({ layer: l, position: t })}
                  head={(t) => (ids.data[t] === index.ids[t] ? <Token id={index.ids[t]} /> : <><Token id={index.ids[t]} /> / <Token id={ids.data[t]} /></>)} />
              </Wide>
            </>
          ),
        };
      }}
    </Figure>
  );
}
