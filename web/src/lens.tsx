// What each state of the stream would predict, and what each head attends to.
import { useState } from "preact/hooks";
import { index, type Values } from "./data";
import { Chip, Figure, Num, Ramp, Token, Wide, mark, type Selection } from "./parts";
import { percent, quoted, short } from "./format";
import { css, magnitudeOf, textOn } from "./color";
import * as commands from "./commands";
import { around, dark, go, n_tokens, tableColumns } from "./state";

export const stateName = (site: string) => {
  const [, l, what] = /blocks\.(\d+)\.hook_(.*)/.exec(site) ?? [];
  if (l === undefined) return site;
  return what.includes("pre") ? (l === "0" ? "embedding" : `before layer ${l}`) : `${l} ${what.includes("mid") ? "attention" : "MLP"}`;
};

/// The table of states; below it, the most likely tokens of the cell that is pointed at or has the focus.
function States(p: { id: Values; prob: Values; entropy: Values; kl: Values; position: number }) {
  void dark.value;
  const { id, prob, entropy, kl } = p;
  const shown = around(p.position, tableColumns());
  const [states, , k] = id.shape;
  const [cell, show] = useState<[number, number]>([states - 1, p.position]);
  const first = (s: number, t: number) => (s * n_tokens + t) * k;
  const [s0, t0] = [cell[0], shown.includes(cell[1]) ? cell[1] : p.position];
  return (
    <>
      <div class="how"><Ramp low="0" high="1" /></div>
      <Wide label="predictions of all states">
        <table class="heat lens">
          <thead><tr><th class="left">state after</th>{shown.map((t) => <th key={t} scope="col"><Chip t={t} /></th>)}<th>entropy</th><th>KL to the end</th></tr></thead>
          <tbody>
            {Array.from({ length: states }, (_, s) => (
              <tr key={s}>
                <th scope="row" class="left">{stateName(id.labels![s])}</th>
                {shown.map((t) => {
                  const at = first(s, t);
                  const c = magnitudeOf(prob.data[at]);
                  return <td key={t} tabIndex={t === p.position ? 0 : -1} class={`cell${t === p.position ? " on" : ""}`} style={{ background: css(c), color: textOn(c) }} onMouseEnter={() => show([s, t])} onFocus={() => show([s, t])} {...mark("lens.prob", [s, t, 0], prob.data[at], "cell")}><Token id={id.data[at]} /></td>;
                })}
                <td><Num site="lens.entropy" at={[s, p.position]} v={entropy} i={s * n_tokens + p.position} /></td>
                <td><Num site="lens.kl" at={[s, p.position]} v={kl} i={s * n_tokens + p.position} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      <p class="how">State “{stateName(id.labels![s0])}” at position {t0}: {Array.from({ length: k }, (_, i) => `${quoted(id.data[first(s0, t0) + i])} ${percent(prob.data[first(s0, t0) + i])}`).join(", ")}. Entropy and KL divergence are those of position {p.position}, in nats.</p>
    </>
  );
}

export function LensFigure() {
  return (
    <Figure id="lens" title="What each layer would predict" wide command={commands.of("lens", "--top 3 --sublayers ", "*.hook_resid_*")} sites={["lens.id", "lens.prob", "lens.entropy", "lens.kl"]}
      how="The model’s own last step, applied to the stream after every sublayer: each cell is the token that it would predict there, in a stronger color the higher its probability. Read a column from top to bottom to see a prediction form."
      note="This is the logit lens. It shows how much of the prediction can already be read from the stream; it does not show what a layer computes.">
      {([id, prob, entropy, kl], { position }) => {
        const p = position.value;
        const states = id.shape[0], k = id.shape[2];
        const final = id.data[((states - 1) * n_tokens + p) * k];
        let since = states - 1;
        while (since > 0 && id.data[((since - 1) * n_tokens + p) * k] === final) --since;
        return {
          says: <>At position {p} the prediction {quoted(final)} first leads, and then stays, in state “{stateName(id.labels![since])}”, {since === states - 1 ? "the last" : `${states - 1 - since} ${states - 2 === since ? "write" : "writes"} before the end`}.</>,
          draws: <States id={id} prob={prob} entropy={entropy} kl={kl} position={p} />,
        };
      }}
    </Figure>
  );
}

const scores = ["previous", "first", "current", "duplicate", "induction", "distance", "entropy"] as const;
const meanings: Record<(typeof scores)[number], string> = {
  previous: "mean weight on the token before",
  first: "mean weight on the first token",
  current: "mean weight on the token itself",
  duplicate: "mean weight on earlier occurrences of the same token",
  induction: "mean weight on the tokens that came after earlier occurrences of the same token",
  distance: "mean distance of what the head looks at, in tokens",
  entropy: "mean entropy of a row, in nats: 0 is a single token, larger is flatter",
};

function Scores(p: { all: Values[]; at: Selection }) {
  void dark.value;
  const [which, set] = useState(0);
  const v = p.all[which];
  const [L, H] = v.shape;
  const isWeight = which < 5;
  const finite = Array.from(v.data).filter(Number.isFinite);
  const largest = isWeight ? 1 : Math.max(...finite, 1e-9);
  return (
    <>
      <div class="choices" role="group" aria-label="score">
        {scores.map((s, i) => <button key={s} type="button" class="chip" aria-pressed={i === which} onClick={() => set(i)}>{s}</button>)}
      </div>
      <p class="how">{meanings[scores[which]]}. <Ramp low="0" high={isWeight ? "1" : short(largest)} /></p>
      {finite.length === 0 ? <p class="how">No token of this text occurs twice, so this score has no value.</p> : (
        <Wide label={`${scores[which]} of every head`}>
          <table class="heat">
            <thead><tr><td></td>{Array.from({ length: H }, (_, h) => <th key={h} scope="col">head {h}</th>)}</tr></thead>
            <tbody>
              {Array.from({ length: L }, (_, l) => (
                <tr key={l}>
                  <th scope="row" class="left" data-layer={l}>layer {l}</th>
                  {Array.from({ length: H }, (_, h) => {
                    const x = v.data[l * H + h];
                    const c = magnitudeOf(Number.isFinite(x) ? x / largest : 0);
                    return <td key={h} data-head={`${l}.${h}`} class={`cell${p.at.layer.value === l && p.at.head.value === h ? " on" : ""}`} style={{ background: css(c), color: textOn(c) }} onClick={() => go({ layer: l, head: h })} {...mark(`heads.${scores[which]}`, [l, h], x, "cell")}>{short(x)}</td>;
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </>
  );
}

export function HeadsFigure() {
  return (
    <Figure id="heads" title="Heads by what they do" command={commands.of("heads", "", "*.attn.hook_pattern")} sites={scores.map((s) => `heads.${s}`)} absent={!index.layers.some((l) => l.mixer === "attention") && "This model has no attention."}
      how="A few numbers for each head, over this text. They tell heads apart at a glance; the maps above show what the means hide.">
      {(all, at) => {
        const H = all[0].shape[1];
        let best = 0;
        all[0].data.forEach((x, i) => { if (x > all[0].data[best] || !Number.isFinite(all[0].data[best])) best = i; });
        return {
          says: Number.isFinite(all[0].data[best]) ? <>Head {Math.floor(best / H)}.{best % H} looks at the token before with {percent(all[0].data[best])} of its weight, more than any other.</> : <>The text is one token, so every head looks at itself.</>,
          draws: <Scores all={all} at={at} />,
        };
      }}
    </Figure>
  );
}
