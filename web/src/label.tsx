// A model with labels: its outputs, what wrote one of them, the words that it depends on, and the heads that join two texts.
import { index, type Values } from "./data";
import { Bar, Chip, Figure, Num, Ramp, Wide, mark, useGradually } from "./parts";
import { percent, quoted, short } from "./format";
import { css, magnitudeOf, signOf, textOn } from "./color";
import { dark, go, n_tokens } from "./state";
import { Grid, Terms } from "./attribution";
import * as commands from "./commands";

const about = index.label;
const two = about !== null && about.texts.includes(1);
const name = about?.name ?? "";

export function LabelFigure() {
  return (
    <Figure id="label" title="What the model says" command={commands.labels()} sites={["label.output", "label.score"]} first
      how="Each label has an output; the score is what the head’s kind of problem makes of it: a softmax, a sigmoid, or the output itself.">
      {([output, score]) => {
        const of = Math.max(...Array.from(output.data, Math.abs), 1e-12);
        const at = output.labels!.indexOf(name);
        return {
          says: <>The output of <strong>{name}</strong> is {short(output.data[at])}, its score {short(score.data[at])}.</>,
          draws: (
            <Wide label="outputs and scores">
              <table>
                <thead><tr><th class="left">label</th><th>output</th><th>score</th><th class="left">size of the output</th></tr></thead>
                <tbody>
                  {output.labels!.map((label, i) => (
                    <tr key={label}>
                      <th scope="row" class="left">{label}</th>
                      <td><Num site="label.output" at={[i]} v={output} i={i} /></td>
                      <td><Num site="label.score" at={[i]} v={score} i={i} /></td>
                      <td class="barcell"><Bar site="label.output" at={[i]} v={output} i={i} of={of} color={`var(--${output.data[i] < 0 ? "negative" : "positive"})`} /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Wide>
          ),
        };
      }}
    </Figure>
  );
}

function Words(p: { v: Values; of: number; text: number }) {
  void dark.value;
  const drawn = useGradually(n_tokens, 128);
  return (
    <div class="chips">
      {index.ids.slice(0, drawn).map((_, t) => about!.texts[t] === p.text && (
        <span key={t} class="labelled" data-of-text={p.text}>
          <Chip t={t} />
          <span class="under cell" style={{ background: css(signOf(p.v.data[t] / p.of)), color: textOn(signOf(p.v.data[t] / p.of)) }} {...mark("attribution.token", [t], p.v.data[t], "cell")}>{short(p.v.data[t])}</span>
        </span>
      ))}
    </div>
  );
}

export function WordsFigure() {
  return (
    <Figure id="words" title="Which words it depends on" command={commands.attribution("--method ig ")} sites={["attribution.token", "attribution.ends"]} first
      how={<>Integrated gradients: the gradient of the output at {about?.steps} points between the embeddings of {quoted(about?.baseline ?? 0)} and those of the text, times their difference. The values of all tokens add up to what the text has more than the baseline.</>}
      note="What the tokenizer adds around the texts is in the baseline, too, so it has no share.">
      {([v, ends]) => {
        const of = Math.max(...Array.from(v.data, Math.abs), 1e-12);
        let best = 0;
        v.data.forEach((x, i) => { if (Math.abs(x) > Math.abs(v.data[best])) best = i; });
        return {
          says: <>The largest share is that of {quoted(index.ids[best])}: {short(v.data[best])}. The output is {short(ends.data[0])}, that of the baseline {short(ends.data[1])}.</>,
          draws: (
            <>
              <Ramp low={`−${short(of)}`} high={short(of)} sign />
              {two && <h4>Query</h4>}
              <Words v={v} of={of} text={0} />
              {two && <><h4>Document</h4><Words v={v} of={of} text={1} /></>}
            </>
          ),
        };
      }}
    </Figure>
  );
}

export function PartsFigure() {
  return (
    <Figure id="attribution" title="What wrote the output" command={commands.attribution("--by head ")} sites={["attribution.component", "attribution.head", "attribution.remainder"]}
      how="The rows that the head reads are sums of what the embedding and every sublayer wrote. With the divisors of the norms held fixed, each has a share of the output; the shares add up to it, up to the remainder."
      note="Direct attribution counts only what a component writes to the end itself, not what later layers make of it.">
      {([component, heads, remainder], { layer, head }) => {
        let best = 0;
        component.data.forEach((x, i) => { if (Math.abs(x) > Math.abs(component.data[best])) best = i; });
        const of = Math.max(...Array.from(heads.data).filter(Number.isFinite).map(Math.abs), 1e-12);
        return {
          says: <>The largest share of <strong>{name}</strong> is that of <span class="site">{component.labels![best]}</span>: {short(component.data[best])}. The remainder is <Num site="attribution.remainder" at={[]} v={remainder} i={0} />.</>,
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

/// Layers by heads, in the ramp of magnitudes from 0 to 1.
function Weights(p: { v: Values; site: string }) {
  void dark.value;
  const [L, H] = p.v.shape;
  return (
    <table class="heat">
      <thead><tr><td></td>{Array.from({ length: H }, (_, h) => <th key={h} scope="col">head {h}</th>)}</tr></thead>
      <tbody>
        {Array.from({ length: L }, (_, l) => (
          <tr key={l}>
            <th scope="row" class="left" data-layer={l}>layer {l}</th>
            {Array.from({ length: H }, (_, h) => {
              const x = p.v.data[l * H + h];
              const c = magnitudeOf(Number.isFinite(x) ? x : 0);
              return <td key={h} data-head={`${l}.${h}`} class="cell" style={{ background: css(c), color: textOn(c) }} onClick={() => go({ layer: l, head: h })} {...mark(p.site, [l, h], x, "cell")}>{short(x)}</td>;
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function JoiningFigure() {
  return (
    <Figure id="joining" title="Heads that join query and document" command={commands.trace("*.attn.hook_pattern")} sites={["heads.to_second", "heads.to_first"]}
      absent={!two && "The model has read one text. Start vitrine look with --pair to see which heads join two."}
      how="For each head, how much of their weight the tokens of one text give the tokens of the other, on average. Click a head to see its map below.">
      {([to, from]) => {
        const H = to.shape[1];
        let best = 0;
        to.data.forEach((x, i) => { if (x > to.data[best] || !Number.isFinite(to.data[best])) best = i; });
        return {
          says: <>Head {Math.floor(best / H)}.{best % H} takes most from the document: the tokens of the query give it {percent(to.data[best])} of their weight there.</>,
          draws: (
            <>
              <Ramp low="0" high="1" />
              <div class="panels pair">
                <div><h4>From the query to the document</h4><Wide label="weights from query to document"><Weights v={to} site="heads.to_second" /></Wide></div>
                <div><h4>From the document to the query</h4><Wide label="weights from document to query"><Weights v={from} site="heads.to_first" /></Wide></div>
              </div>
            </>
          ),
        };
      }}
    </Figure>
  );
}
