// What a change of values, or another text, does to the run; and the text at every checkpoint of a training run.
import { useState } from "preact/hooks";
import { line } from "d3-shape";
import { extent } from "d3-array";
import { scaleLinear } from "d3-scale";
import { has, index, type Values } from "./data";
import { Chip, Figure, Map_, Num, Ramp, Token, Wide, mark, useValues, type Selection } from "./parts";
import { grouped, percent, quoted, short } from "./format";
import { css, magnitudeOf, textOn } from "./color";
import { after, around, chartWidth, dark, go, headsOf, n_tokens, tableColumns } from "./state";
import * as commands from "./commands";
import { stateName } from "./lens";

const P = index.position;

function Changed(p: { stream: Values; kl: Values; at: Selection }) {
  void dark.value;
  const shown = around(p.at.position.value, tableColumns());
  const states = p.stream.shape[0];
  return (
    <Wide label="change of every state of the stream">
      <table class="heat lens">
        <thead><tr><th class="left">state after</th>{shown.map((t) => <th key={t} scope="col"><Chip t={t} /></th>)}</tr></thead>
        <tbody>
          {Array.from({ length: states }, (_, s) => (
            <tr key={s}>
              <th scope="row" class="left">{stateName(p.stream.labels![s])}</th>
              {shown.map((t) => {
                const x = p.stream.data[s * n_tokens + t];
                const c = magnitudeOf(x);
                return <td key={t} class="cell" style={{ background: css(c), color: textOn(c) }} {...mark("difference.stream", [s, t], x, "cell")}>{short(x)}</td>;
              })}
            </tr>
          ))}
          <tr class="sum"><th scope="row" class="left">KL of the predictions</th>{shown.map((t) => <td key={t}><Num site="difference.kl" at={[t]} v={p.kl} i={t} /></td>)}</tr>
        </tbody>
      </table>
    </Wide>
  );
}

export function DifferenceFigure() {
  const change = index.after;
  return (
    <Figure id="difference" title="What the change does" wide sites={["difference.id", "difference.prob", "difference.stream", "difference.kl"]}
      command={commands.compared()}
      absent={!change && "Start vitrine look with --set 'SITE[index]=value', as in vitrine trace, to see what a changed value does; or with --corrupted and another text of the same length."}
      how="The model has run twice. Above: the most likely next tokens without and with the change. Below: how far each state of the stream has moved, as a share of its own size, and how far the predictions have moved, in nats. 0 means that the change has not arrived there."
      note="A change cannot reach earlier positions, because a token never reads later ones. Where a column stays 0 in the upper rows and grows below, attention has brought the change there.">
      {([id, prob, stream, kl], at) => {
        const K = id.data.length;
        let best = 0;
        for (let i = 0; i < K; ++i) if (Math.abs(prob.data[2 * i + 1] - prob.data[2 * i]) > Math.abs(prob.data[2 * best + 1] - prob.data[2 * best])) best = i;
        return {
          says: <>{change!.set.length ? <>With <code>{change!.set.join(", ")}</code>, the</> : "With the other text, the"} probability of {quoted(id.data[best])} goes from {percent(prob.data[2 * best])} to {percent(prob.data[2 * best + 1])}; the prediction after position {P} moves by {short(kl.data[P])} nats.</>,
          draws: (
            <>
              <Wide label="probabilities without and with the change"><table class="pairs">
                <thead><tr><th class="left">next token</th><th class="left">without</th><td></td><th class="left">with the change</th><td></td></tr></thead>
                <tbody>
                  {Array.from(id.data, (x, i) => (
                    <tr key={i}>
                      <th scope="row" {...mark("difference.id", [i], x, "text")}><Token id={x} /></th>
                      {[0, 1].map((k) => (
                        <>
                          <td class="barcell"><span class="track"><span class="bar" style={{ width: `${100 * prob.data[2 * i + k]}%` }} {...mark("difference.prob", [i, k], prob.data[2 * i + k], "bar")} /></span></td>
                          <td><Num site="difference.prob" at={[i, k]} v={prob} i={2 * i + k} format={percent} /></td>
                        </>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table></Wide>
              <div class="how"><Ramp low="0" high="1 or more" /> <button type="button" class="chip" aria-pressed={after.value} onClick={() => go({ after: !after.value })}>all figures {after.value ? "without it" : "with it"}</button></div>
              <Changed stream={stream} kl={kl} at={at} />
            </>
          ),
        };
      }}
    </Figure>
  );
}

const H = 220, LEFT = 48, BOTTOM = 28;

/// Lines over training steps.
function Curve(p: { label: string; steps: ArrayLike<number>; lines: { values: number[]; class: string; opacity?: number }[]; children?: preact.ComponentChildren; x: (s: number) => number; y: (v: number) => number; ticks: number[] }) {
  const last = p.steps[p.steps.length - 1], W = chartWidth();
  return (
    <svg viewBox={`0 0 ${W} ${H}`} width={W} role="img" aria-label={p.label}>
      {p.ticks.map((t) => <g key={t}><line class="axis" x1={LEFT} x2={W - 20} y1={p.y(t)} y2={p.y(t)} /><text x={LEFT - 8} y={p.y(t) + 4} text-anchor="end">{String(Number(t.toPrecision(3)))}</text></g>)}
      {p.lines.map((l, i) => <path key={i} class={l.class} opacity={l.opacity} d={line<number>((_, k) => p.x(p.steps[k]), (v) => p.y(v)).defined(Number.isFinite)(l.values) ?? ""} />)}
      {p.children}
      <text x={LEFT} y={H - 8}>step {grouped(p.steps[0])}</text><text x={W - 20} y={H - 8} text-anchor="end">{grouped(last)}</text>
    </svg>
  );
}

function Loss(p: { step: Values; loss: Values; at: Values; curve: Values }) {
  const steps = p.at.data.length > 0 ? p.at.data : p.step.data, values = p.at.data.length > 0 ? p.curve.data : p.loss.data;
  const finite = Array.from(values).filter(Number.isFinite);
  if (finite.length === 0) return <p class="how">The run has no log of its loss.</p>;
  const x = scaleLinear([Math.min(steps[0], p.step.data[0]), Math.max(steps[steps.length - 1], p.step.data[p.step.data.length - 1]) || 1], [LEFT, chartWidth() - 20]);
  const y = scaleLinear([0, Math.max(...finite)], [H - BOTTOM, 12]);
  return (
    <Curve label="training loss" steps={steps} x={x} y={y} ticks={y.ticks(5)} lines={[{ values: Array.from(values), class: "norm" }]}>
      {Array.from(p.step.data, (s, i) => Number.isFinite(p.loss.data[i]) && <circle key={i} class="dot stream" cx={x(s)} cy={y(p.loss.data[i])} r="4" {...mark("run.loss", [i], p.loss.data[i], "dot")} />)}
    </Curve>
  );
}

const scores = ["previous", "first", "current", "duplicate", "induction", "distance", "entropy"];

function HeadCurves(p: { step: Values; at: Selection }) {
  const [which, set] = useState(0);
  const name = `run.heads.${scores[which]}`;
  const v = useValues([name], true)?.[0];
  if (!v) return null;
  const [C, L, N] = v.shape;
  const [layer, head] = [p.at.layer.value, p.at.head.value];
  const finite = Array.from(v.data).filter(Number.isFinite);
  const x = scaleLinear([p.step.data[0], p.step.data[C - 1] || 1], [LEFT, chartWidth() - 20]);
  const y = scaleLinear(extent(finite.length > 0 ? finite : [0, 1]) as [number, number], [H - BOTTOM, 12]).nice(5);
  const of = (l: number, h: number) => Array.from({ length: C }, (_, c) => v.data[(c * L + l) * N + h]);
  const chosen = of(layer, head);
  return (
    <div>
      <h4>Head scores; head {layer}.{head} is drawn bold</h4>
      {finite.length === 0 ? <p class="how">No token of this text occurs twice, so this score has no value.</p> : (
        <Curve label={`${scores[which]} of every head by step`} steps={p.step.data} x={x} y={y} ticks={y.ticks(5)}
          lines={[...Array.from({ length: L * N }, (_, i) => ({ values: of(Math.floor(i / N), i % N), class: "attention", opacity: 0.25 })), { values: chosen, class: "stream" }]}>
          {chosen.map((s, c) => Number.isFinite(s) && <circle key={c} class="dot stream" cx={x(p.step.data[c])} cy={y(s)} r="3" {...mark(name, [c, layer, head], s, "dot")} />)}
        </Curve>
      )}
      <div class="choices" role="group" aria-label="score">{scores.map((s, i) => <button key={s} type="button" class="chip" aria-pressed={i === which} onClick={() => set(i)}>{s}</button>)}</div>
    </div>
  );
}

function RunMaps(p: { step: Values; at: Selection }) {
  const layer = p.at.layer.value;
  const h = Math.min(p.at.head.value, headsOf(layer) - 1);
  const names = Array.from(p.step.data, (s) => `run.${s}.blocks.${layer}.attn.hook_pattern`);
  const loaded = useValues(names, has(names[0]));
  if (!has(names[0])) return null;
  return (
    <div>
      <h4>Head {layer}.{h} at every checkpoint ≈</h4>
      <div class="tiles">
        {loaded && names.map((name, c) => {
          const v = loaded[c];
          if (!v) return null;
          const [, rows, cols] = v.shape;
          return <div key={name} class="tile"><Map_ site={name} at={String(h)} rows={rows} cols={cols} data={v.data} from={h * rows * cols} most={160} />step {grouped(p.step.data[c])}</div>;
        })}
      </div>
    </div>
  );
}

export function RunFigure() {
  return (
    <Figure id="run" title="The text through training" wide sites={["run.step", "run.loss", "run.top.id", "run.top.prob", "run.curve.step", "run.curve.loss"]}
      command={`vitrine predict ${index.run ? `'${index.run}/last' ` : ""}--ids ${index.ids.join(",")} --json`}
      absent={!index.run && "Start vitrine look with --run and the folder of a training run to see how the model came to read this text."}
      how="The same text at each checkpoint of the run: the training loss, what the model predicted at the selected position, and what its heads attended to.">
      {([step, loss, id, prob, curveStep, curve], at) => {
        const [C, T, K] = id.shape;
        const p = at.position.value;
        const cell = (c: number, i: number) => (c * T + p) * K + i;
        const last = id.data[cell(C - 1, 0)];
        let since = C - 1;
        while (since > 0 && id.data[cell(since - 1, 0)] === last) --since;
        const k = Math.min(K, 4);
        return {
          says: <>After position {p}, the last checkpoint predicts {quoted(last)} ({percent(prob.data[cell(C - 1, 0)])}){since < C - 1 ? <>, as every checkpoint does since step {grouped(step.data[since])}</> : C > 1 && "; the checkpoint before it does not"}.</>,
          draws: (
            <>
              <div class="panels">
                <div><h4>Training loss, in nats; dots are checkpoints</h4><Loss step={step} loss={loss} at={curveStep} curve={curve} /></div>
                <HeadCurves step={step} at={at} />
              </div>
              <Wide label="predictions at every checkpoint">
                <table>
                  <thead><tr><th>step</th>{Array.from({ length: k }, (_, i) => <><th key={i} class="left">{i === 0 ? "most likely" : `${i + 1}.`}</th><td></td></>)}</tr></thead>
                  <tbody>
                    {Array.from({ length: C }, (_, c) => (
                      <tr key={c}>
                        <th {...mark("run.step", [c], step.data[c], "text")}>{grouped(step.data[c])}</th>
                        {Array.from({ length: k }, (_, i) => (
                          <>
                            <td class="left"><span {...mark("run.top.id", [c, p, i], id.data[cell(c, i)], "text")}><Token id={id.data[cell(c, i)]} /></span></td>
                            <td><Num site="run.top.prob" at={[c, p, i]} v={prob} i={cell(c, i)} format={percent} /></td>
                          </>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Wide>
              <RunMaps step={step} at={at} />
            </>
          ),
        };
      }}
    </Figure>
  );
}
