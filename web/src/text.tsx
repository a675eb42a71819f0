// What the model reads and predicts.
import { index, type Values } from "./data";
import { Bar, Chip, Figure, Num, Token, Wide, mark, spread, useGradually } from "./parts";
import { bytesOf, percent, quoted, short, token } from "./format";
import { around, ids, n_tokens, narrow } from "./state";
import * as commands from "./commands";

const after = (t: number) => (t === 0 ? "the first token" : `the first ${t + 1} tokens`);

function Tokens(p: { logprob: Values; rank: Values }) {
  const drawn = useGradually(n_tokens, 64);
  const { logprob, rank } = p;
  return (
    <div class="chips">
      {ids().slice(0, drawn).map((id, t) => (
        <span key={t} class="labelled">
          <Chip t={t} />
          <span class="under">
            <span>{id}</span>
            <code class="raw">{bytesOf(id)}</code>
            {t > 0 && <span {...mark("tokens.logprob", [t], logprob.data[t], "text")}>{percent(Math.exp(logprob.data[t]))}</span>}
            {t > 0 && <span {...mark("tokens.rank", [t], rank.data[t], "text")}>rank {rank.data[t]}</span>}
          </span>
        </span>
      ))}
    </div>
  );
}

export function TextFigure() {
  return (
    <Figure id="text" title="The text as tokens" command={commands.predict()} sites={["tokens.logprob", "tokens.rank"]} first
      how="Each chip is a token; below it are its id and how likely the model found it, given the tokens before it. Between them are the token’s bytes, in hexadecimal. Select one to follow its position in all figures."
      note="A token is a piece of text with a number, its id. A raised dot is a space. Rank 0 means that no other token was more likely.">
      {([logprob, rank]) => {
        let best = 1, worst = 1;
        for (let t = 1; t < n_tokens; ++t) {
          if (logprob.data[t] > logprob.data[best]) best = t;
          if (logprob.data[t] < logprob.data[worst]) worst = t;
        }
        return {
          says: n_tokens < 2 ? <>The text is one token.</> : (
            <>The text is {n_tokens} tokens. The model expected {quoted(ids()[best])} most ({percent(Math.exp(logprob.data[best]))}) and {quoted(ids()[worst])} least ({percent(Math.exp(logprob.data[worst]))}).</>
          ),
          draws: (
            <Tokens logprob={logprob} rank={rank} />
          ),
        };
      }}
    </Figure>
  );
}

const most = () => (narrow.value ? 4 : 24);

export function PredictionsFigure() {
  return (
    <Figure id="predictions" title="What the model expects next" command={commands.predict()} sites={["top.id", "top.prob"]} wide first
      how="Each column is the end of a prefix of the text; below it are the ten most likely next tokens, most likely first. Read left to right: the expectation changes with every token.">
      {([id, prob], { position }) => {
        const p = position.value;
        const k = id.shape[1];
        const at = p * k;
        return {
          says: <>After {after(p)}, the model’s first choice is {quoted(id.data[at])} with {percent(prob.data[at])}{k > 1 && <>; next is {quoted(id.data[at + 1])} with {percent(prob.data[at + 1])}</>}.</>,
          draws: (
            <Wide label="predictions after each prefix">
              <div class="columns-of-tokens">
                {around(p, most()).map((t) => (
                  <div key={t} class={t === p ? "column on" : "column"}>
                    <div class="head">… <Chip t={t} /></div>
                    {Array.from({ length: k }, (_, i) => (
                      <div key={i} class="ranked">
                        <span class="token-of" {...mark("top.id", [t, i], id.data[t * k + i], "text")}><Token id={id.data[t * k + i]} /></span>
                        <span class="value"><Num site="top.prob" at={[t, i]} v={prob} i={t * k + i} format={percent} /></span>
                        <Bar site="top.prob" at={[t, i]} v={prob} i={t * k + i} of={1} />
                      </div>
                    ))}
                  </div>
                ))}
              </div>
            </Wide>
          ),
        };
      }}
    </Figure>
  );
}

export function DirectionsFigure() {
  const P = index.position;
  return (
    <Figure id="directions" title="A logit is a test of agreement" command={commands.trace("unembed.hook_in", "unembed.hook_out")}
      sites={["direction.id", "direction.product", "direction.length", "direction.cosine", `unembed.hook_in[${P}]`]}
      how="The head has one vector for each token of the vocabulary. A logit is the dot product of that vector with the last vector of the stream: the product of both lengths and the cosine of the angle between them. Angles and lengths are true; the direction of the last vector is drawn to the right."
      note="Two vectors agree if they point the same way. In a space of many dimensions most pairs are almost perpendicular, so a cosine of 0.3 is already a strong agreement.">
      {([id, product, length, cosine, x]) => {
        const norm = Math.sqrt(Array.from(x.data).reduce((sum, v) => sum + v * v, 0));
        const longest = Math.max(...length.data) || 1;
        const r = 150;
        const angle = (i: number) => Math.acos(cosine.data[i]) * (i % 2 ? 1 : -1);
        const dots = Array.from(id.data, (_, i) => [Math.cos(angle(i)), Math.sin(angle(i))].map((x) => (x * r * length.data[i]) / longest));
        const labels = Math.max(...dots.map(([x]) => x)) + 28;
        const heights = dots.map(() => 0);
        for (const side of [-1, 1]) {
          const here = dots.map((_, i) => i).filter((i) => (i % 2 ? 1 : -1) === side);
          spread(here.map((i) => Math.max(side * dots[i][1] - 30, 22))).forEach((y, k) => (heights[here[k]] = side * y));
        }
        const tall = Math.max(170, ...heights.map((y) => Math.abs(y) + 12));
        return {
          says: <>The vector of {quoted(id.data[0])} is at {short((Math.acos(cosine.data[0]) * 180) / Math.PI)}° to the last vector, whose length is {short(norm)}; their product is {short(product.data[0])}.</>,
          draws: (
            <div class="panels">
              <svg viewBox={`-20 ${-tall} 400 ${2 * tall}`} width="400" role="img" aria-label="rows of the head around the last vector">
                <line class="axis" x1="0" y1="0" x2="360" y2="0" />
                <path class="stream" d={`M0 0H${r * 1.6}`} stroke-width="2" />
                <text class="ink" x={r * 1.6 + 6} y="4">last vector</text>
                {Array.from(id.data, (v, i) => {
                  const [cx, cy] = dots[i];
                  return (
                    <g key={i}>
                      <line x1="0" y1="0" x2={cx} y2={cy} stroke="var(--soft)" stroke-width="1" />
                      <circle class="dot" cx={cx} cy={cy} r="3" fill="var(--ink)" {...mark("direction.cosine", [i], cosine.data[i], "dot")} />
                      <path class="axis" d={`M${cx + 4} ${cy}L${labels - 4} ${heights[i]}`} />
                      <text class="ink" x={labels} y={heights[i] + 4}>{i + 1} {token(v)}</text>
                    </g>
                  );
                })}
              </svg>
              <Wide label="the dot products">
                <table>
                  <thead><tr><td></td><th class="left">token</th><th>length</th><th>cosine</th><th>product</th></tr></thead>
                  <tbody>
                    {Array.from(id.data, (v, i) => (
                      <tr key={i}>
                        <th scope="row">{i + 1}</th><td class="left"><Token id={v} /></td>
                        <td><Num site="direction.length" at={[i]} v={length} i={i} /></td>
                        <td><Num site="direction.cosine" at={[i]} v={cosine} i={i} /></td>
                        <td><Num site="direction.product" at={[i]} v={product} i={i} /></td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Wide>
            </div>
          ),
        };
      }}
    </Figure>
  );
}
