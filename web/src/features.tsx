// The features of sparse autoencoders and transcoders that are active at a token.
import { Bar, Figure, Num, Token, Wide, mark } from "./parts";
import { index, type Values } from "./data";
import { grouped, short } from "./format";
import * as commands from "./commands";
import { Dashboard } from "./dashboard";
import { signal } from "@preact/signals";

const parts = ["index", "value", "logit.id", "logit.weight"];

/// The feature whose dashboard is shown, of the dictionary with these values.
const chosen = signal<{ of: string; feature: number } | null>(null);

/// The number of a feature. If it has a dashboard, a button shows and hides it.
function Name(p: { sae: (typeof index.saes)[number]; feature: number }) {
  if (p.sae.corpus_tokens === null) return <>{p.feature}</>;
  const isShown = chosen.value?.of === p.sae.values && chosen.value.feature === p.feature;
  return <button type="button" class="plain" aria-expanded={isShown} onClick={() => (chosen.value = isShown ? null : { of: p.sae.values, feature: p.feature })}>{p.feature}</button>;
}

/// The strongest features of a dictionary at a position.
function Features(p: { sae: (typeof index.saes)[number]; values: Values[]; position: number; largest: number }) {
  const { values: name, site, architecture, d_sae, active } = p.sae;
  const [of, value, ids, weights] = p.values;
  const k = of.shape[1], m = ids.shape[2];
  const rows = Array.from({ length: k }, (_, i) => p.position * k + i).filter((at) => of.data[at] >= 0);
  return (
    <div>
      <h4>{p.sae.name ? `${p.sae.name}, ${site}` : site}</h4>
      <p class="how">{architecture}, {grouped(d_sae)} features; {active[p.position]} of them are active here.</p>
      {rows.length > 0 && (
        <Wide label={`the strongest features of ${p.sae.name ?? site}`}>
          <table>
            <thead><tr><th>feature</th><th>value</th><td /><th class="left">raises the logits of</th></tr></thead>
            <tbody>
              {rows.map((at) => {
                const i = at - p.position * k;
                return (
                  <tr key={i}>
                    <th scope="row" {...mark(`${name}.index`, [p.position, i], of.data[at], "text")}><Name sae={p.sae} feature={of.data[at]} /></th>
                    <td><Num site={`${name}.value`} at={[p.position, i]} v={value} i={at} /></td>
                    <td class="left"><Bar site={`${name}.value`} at={[p.position, i]} v={value} i={at} of={p.largest} /></td>
                    <td class="left">
                      {Array.from({ length: m }, (_, j) => at * m + j).filter((w) => ids.data[w] >= 0).map((w, j) => (
                        <span key={j}>{j > 0 && ", "}<span {...mark(`${name}.logit.id`, [p.position, i, j], ids.data[w], "text")}><Token id={ids.data[w]} /></span> <Num site={`${name}.logit.weight`} at={[p.position, i, j]} v={weights} i={w} /></span>
                      ))}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </Wide>
      )}
      {chosen.value?.of === name && <Dashboard sae={p.sae} feature={chosen.value.feature} />}
    </div>
  );
}

export function FeaturesFigure() {
  const sites = index.saes.flatMap((sae) => parts.map((part) => `${sae.values}.${part}`));
  return (
    <Figure id="features" title="Which features are active" wide command={commands.features(5)} sites={sites}
      how="A sparse autoencoder writes a value of the forward as a sum over a few of many features; a transcoder predicts an output from an input in the same way. Shown are the strongest features at the selected position, and the tokens whose vectors in the head agree most with what a feature adds: its row of the decoder times their vectors. With --features-index, the number of a feature shows what it does in a corpus."
      note="These products leave out the final norm and all layers in between, so they tell what a feature writes, not what the model makes of it.">
      {(all, { position }) => {
        const p = position.value;
        const of = (s: number) => all.slice(s * parts.length, (s + 1) * parts.length);
        const shown = index.saes.map((_, s) => of(s)[1]).flatMap((value) => Array.from(value.data.slice(p * value.shape[1], (p + 1) * value.shape[1])));
        const largest = Math.max(...shown.filter(Number.isFinite).map(Math.abs), 0) || 1;
        const [first, value] = of(0);
        const at = p * first.shape[1];
        return {
          says: first.data[at] < 0 ? <>At position {p} no feature of {index.saes[0].site} is active.</> : <>At position {p} the strongest feature of {index.saes[0].site} is {first.data[at]}, with the value {short(value.data[at])}.</>,
          draws: <div>{index.saes.map((sae, s) => <Features key={s} sae={sae} values={of(s)} position={p} largest={largest} />)}</div>,
        };
      }}
    </Figure>
  );
}
