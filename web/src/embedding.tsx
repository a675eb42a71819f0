// The geometry of the token embedding.
import { Figure, Num, Ramp, Token, Wide, mark, useValues } from "./parts";
import { has, index, type Values } from "./data";
import { fixed, quoted, short } from "./format";
import { css, signOf, textOn } from "./color";
import { dark, ids } from "./state";
import * as commands from "./commands";

export function CosineFigure() {
  return (
    <Figure id="embedding-cosine" title="Which tokens start out alike" command={commands.embed(new Set(ids()))} sites={["embedding.id", "embedding.cosine"]}
      how="The cosine of the embeddings of each pair of the text’s tokens, before any layer: 1 for the same direction, 0 for perpendicular ones.">
      {([id, cosine]) => {
        void dark.value;
        const n = id.data.length;
        let best = [0, 0, -2];
        for (let a = 0; a < n; ++a) for (let b = 0; b < a; ++b) if (cosine.data[a * n + b] > best[2]) best = [a, b, cosine.data[a * n + b]];
        return {
          says: n < 2 ? <>The text has one token.</> : <>Of these tokens, {quoted(id.data[best[0]])} and {quoted(id.data[best[1]])} are most alike: their cosine is {short(best[2])}.</>,
          draws: (
            <>
              <Ramp low="−1" high="1" sign />
              <Wide label="cosines of the embeddings">
                <table class="heat">
                  <thead><tr><td></td>{Array.from(id.data, (v, i) => <th key={i} scope="col"><Token id={v} /></th>)}</tr></thead>
                  <tbody>
                    {Array.from(id.data, (v, a) => (
                      <tr key={a}>
                        <th scope="row" class="left"><Token id={v} /></th>
                        {Array.from(id.data, (_, b) => {
                          const c = signOf(cosine.data[a * n + b]);
                          return <td key={b} class="cell" style={{ background: css(c), color: textOn(c) }} {...mark("embedding.cosine", [a, b], cosine.data[a * n + b], "cell")}>{fixed(cosine.data[a * n + b])}</td>;
                        })}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Wide>
            </>
          ),
        };
      }}
    </Figure>
  );
}

/// The tokens nearest to a sum of embeddings.
function Analogy() {
  const loaded = useValues(["analogy.id", "analogy.cosine"], true);
  if (!loaded) return null;
  const [id, cosine] = loaded as Values[];
  return (
    <div>
      <h4>{index.analogy.map(({ id: word, factor }, i) => <span key={i}>{factor < 0 ? " − " : i > 0 ? " + " : ""}<Token id={word} /></span>)}, each of length 1, is nearest to</h4>
      <div class="analogy">
        {Array.from(id.data, (x, i) => <div key={i} class="ranked"><span {...mark("analogy.id", [i], x, "text")}><Token id={x} /></span><span class="value"><Num site="analogy.cosine" at={[i]} v={cosine} i={i} /></span></div>)}
      </div>
    </div>
  );
}

export function NeighborsFigure() {
  return (
    <Figure id="neighbours" title="The nearest tokens of the vocabulary" command={commands.embed([ids()[index.position]])} sites={["embedding.id", "embedding.near.id", "embedding.near.cosine"]} wide
      how="For each token of the text, the ten tokens of the whole vocabulary whose embeddings have the largest cosine with it.">
      {([id, near, cosine]) => {
        const k = near.shape[1];
        const last = id.data.length - 1;
        return {
          says: k === 0 ? <>The vocabulary has no other token.</> : <>The nearest token to {quoted(id.data[last])} is {quoted(near.data[last * k])}, with a cosine of {short(cosine.data[last * k])}.</>,
          draws: (
            <>
            {has("analogy.id") && <Analogy />}
            <Wide label="nearest tokens">
              <div class="columns-of-tokens">
                {Array.from(id.data, (v, w) => (
                  <div key={w} class="column">
                    <div class="head"><Token id={v} /></div>
                    {Array.from({ length: k }, (_, i) => (
                      <div key={i} class="ranked">
                        <span {...mark("embedding.near.id", [w, i], near.data[w * k + i], "text")}><Token id={near.data[w * k + i]} /></span>
                        <span class="value"><Num site="embedding.near.cosine" at={[w, i]} v={cosine} i={w * k + i} /></span>
                      </div>
                    ))}
                  </div>
                ))}
              </div>
            </Wide>
            </>
          ),
        };
      }}
    </Figure>
  );
}
