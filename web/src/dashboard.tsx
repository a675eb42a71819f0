// What a feature does in a corpus: vitrine features index.
import { Num, Token, Wide, mark, useValues } from "./parts";
import { index } from "./data";
import { css, magnitudeOf, textOn } from "./color";
import { grouped, short } from "./format";
import * as commands from "./commands";

const parts = ["feature", "density", "histogram", "edge", "logit.id", "logit.weight", "context.max", "context.at", "context.id", "context.value"];

/// The arrays of a dictionary's dashboards.
export const dashboardSites = (name: string) => parts.map((part) => `${name}.dashboards.${part}`);

export function Dashboard(p: { sae: (typeof index.saes)[number]; feature: number }) {
  const of = `${p.sae.values}.dashboards`;
  const loaded = useValues(dashboardSites(p.sae.values), true);
  if (!loaded || loaded.some((v) => !v)) return null;
  const [features, density, histogram, edge, ids, weights, max, at, tokens, values] = loaded as NonNullable<(typeof loaded)[number]>[];
  const f = features.data.indexOf(p.feature);
  if (f < 0) return null;
  const [bins, m, C, T] = [histogram.shape[1], ids.shape[2], max.shape[1], tokens.shape[2]];
  const most = Math.max(1, ...histogram.data.slice(f * bins, (f + 1) * bins));
  const contexts = Array.from({ length: C }, (_, c) => f * C + c).filter((c) => at.data[c] >= 0);
  const largest = contexts.length > 0 ? max.data[contexts[0]] : 1;
  const logits = (kind: number) =>
    Array.from({ length: m }, (_, j) => (2 * f + kind) * m + j).filter((w) => ids.data[w] >= 0).map((w, j) => (
      <span key={j}>{j > 0 && ", "}<span {...mark(`${of}.logit.id`, [f, kind, j], ids.data[w], "text")}><Token id={ids.data[w]} /></span> <Num site={`${of}.logit.weight`} at={[f, kind, j]} v={weights} i={w} /></span>
    ));
  return (
    <div class="dashboard" data-feature={p.feature}>
      <h4>Feature {p.feature} in a corpus</h4>
      <p class="how">Active at <span {...mark(`${of}.density`, [f], density.data[f], "text")}>{short(100 * density.data[f])}%</span> of {grouped(p.sae.corpus_tokens!)} tokens. Its activations, from <Num site={`${of}.edge`} at={[f, 0]} v={edge} i={2 * f} /> to <Num site={`${of}.edge`} at={[f, 1]} v={edge} i={2 * f + 1} />:</p>
      <svg width={bins * 9} height="44" role="img" aria-label="histogram of the activations">
        {Array.from({ length: bins }, (_, b) => {
          const n = histogram.data[f * bins + b], height = (40 * n) / most;
          return <rect key={b} x={b * 9} y={42 - height} width="8" height={height} fill="var(--magnitude)" {...mark(`${of}.histogram`, [f, b], n, "bar")}><title>{grouped(n)}</title></rect>;
        })}
        <line x1="0" x2={bins * 9} y1="42.5" y2="42.5" stroke="var(--line)" />
      </svg>
      {ids.data[2 * f * m] >= 0 && <p class="how">Raises the logits of {logits(0)}. Lowers those of {logits(1)}.</p>}
      {contexts.length === 0 && <p class="how">It is never active in the corpus.</p>}
      <Wide label={`the strongest contexts of feature ${p.feature}`}>
        <table>
          <tbody>
            {contexts.map((c) => (
              <tr key={c}>
                <td><Num site={`${of}.context.max`} at={[f, c - f * C]} v={max} i={c} /></td>
                <td class="left context">
                  {Array.from({ length: T }, (_, t) => c * T + t).filter((i) => tokens.data[i] >= 0).map((i) => {
                    const color = magnitudeOf(values.data[i] / largest);
                    return <span key={i} class={i - c * T === at.data[c] ? "on" : ""} style={values.data[i] > 0 ? { background: css(color), color: textOn(color) } : {}} {...mark(`${of}.context.value`, [f, c - f * C, i - c * T], values.data[i], "cell", true)}><Token id={tokens.data[i]} /></span>;
                  })}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      <p class="how"><code>{commands.dashboard(p.sae.key, p.feature)}</code></p>
    </div>
  );
}
