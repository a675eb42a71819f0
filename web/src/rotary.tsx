// Rotary positions.
import { scaleLinear, scaleLog } from "d3-scale";
import { index } from "./data";
import { Figure, Ramp, mark, spread } from "./parts";
import { grouped, short } from "./format";
import { css, magnitudeOf } from "./color";
import { chartWidth, dark, n_layers } from "./state";
import * as commands from "./commands";

const absent = !index.layers.some((l) => l.rope) && "This model does not rotate its queries and keys.";

export function RotaryPairFigure() {
  return (
    <Figure id="rotary-pair" title="Positions are angles" command={commands.info} sites={["rope.pair", "rope.frequency"]} absent={absent}
      how="A pair of elements of a query or key is rotated by an angle that grows with the position. The arrows are (1, 0) at positions 0 to 4, for the fastest pair and for one that turns slowly enough to see."
      note="The score of a query and a key depends only on the difference of their angles, so on their distance.">
      {([pair, frequency]) => {
        const n = frequency.shape[1];
        let taught = 0;
        for (let i = 0; i < n; ++i) if (Math.abs(frequency.data[i] - 0.24) < Math.abs(frequency.data[taught] - 0.24)) taught = i;
        const at = (k: number) => [0, 1, 2, 3, 4].map((t) => [pair.data[(k * 5 + t) * 2], pair.data[(k * 5 + t) * 2 + 1]]);
        /// Slow pairs have arrows close to each other: their labels are moved apart.
        const labels = (k: number) => (at(k).every(([x]) => x > 0.5) ? spread(at(k).map(([, y]) => -114 * y)) : at(k).map(([, y]) => -114 * y));
        return {
          says: <>The fastest pair turns by {short((frequency.data[0] * 180) / Math.PI)}° per token, the slowest by {short((frequency.data[n - 1] * 180) / Math.PI)}°.</>,
          draws: (
            <div class="panels">
              {[0, 1].map((k) => (
                <svg key={k} viewBox="-130 -130 260 280" width="260" role="img" aria-label={`rotations of pair ${k ? taught : 0}`}>
                  <circle class="axis" r="100" /><path class="axis" d="M-110 0H110M0 -110V110" />
                  {at(k).map(([x, y], t) => {
                    const [left, top] = [114 * x, labels(k)[t]];
                    return <g key={t}><line x1="0" y1="0" x2={100 * x} y2={-100 * y} stroke="var(--attention)" stroke-width="1.5" opacity={1 - 0.15 * t} /><circle class="dot attention" cx={100 * x} cy={-100 * y} r="3" {...mark("rope.pair", [k, t, 0], x, "dot")} /><text class="ink" x={left} y={top + 4} text-anchor="middle">{t}</text></g>;
                  })}
                  <text x="0" y="146" text-anchor="middle">pair {k ? taught : 0}: {short(frequency.data[k ? taught : 0])} radians per token</text>
                </svg>
              ))}
            </div>
          ),
        };
      }}
    </Figure>
  );
}

export function WavelengthsFigure() {
  return (
    <Figure id="wavelengths" title="From one token to the whole context" command={commands.info} sites={["rope.wavelength"]} absent={absent}
      how="How many tokens each pair takes to make a full turn. The line is the longest text that the model reads: pairs above it never complete a turn.">
      {([v]) => {
        const n = v.shape[1];
        const W = chartWidth(), H = 240;
        const x = scaleLinear([0, n - 1 || 1], [60, W - 110]);
        const high = Math.max(...Array.from(v.data).filter(Number.isFinite), index.max_seq_len) * 1.5;
        const y = scaleLog([4, high], [H - 28, 10]);
        const slow = Array.from(v.data.slice(0, n)).filter((w) => w > index.max_seq_len).length;
        return {
          says: <>Wavelengths go from {short(v.data[0])} to {grouped(v.data[n - 1])} tokens; {slow} of {n} pairs never turn fully within the context of {grouped(index.max_seq_len)} tokens.</>,
          draws: (
            <>
            <p class="how">{[...new Set(index.groups.flatMap((g) => g.config.filter(([key, text]) => key === "rope" && text !== "none").map(([, text]) => text)))].join("; ")}</p>
            <svg viewBox={`0 0 ${W} ${H}`} width={W} role="img" aria-label="wavelengths of the pairs">
              {[10, 100, 1000, 10000, 100000, 1e6].filter((t) => t < high).map((t) => <g key={t}><line class="axis" x1="60" x2={W - 110} y1={y(t)} y2={y(t)} /><text x="52" y={y(t) + 4} text-anchor="end">{grouped(t)}</text></g>)}
              <line class="guide" x1="60" x2={W - 110} y1={y(index.max_seq_len)} y2={y(index.max_seq_len)} /><text x={W - 104} y={y(index.max_seq_len) + 4}>context {grouped(index.max_seq_len)}</text>
              {Array.from(v.data, (w, i) => Number.isFinite(w) && <circle key={i} class="dot attention" cx={x(i % n)} cy={y(w)} r="3" {...mark("rope.wavelength", [Math.floor(i / n), i % n], w, "dot")} />)}
              <text x="60" y={H - 8}>pair 0</text><text x={W - 110} y={H - 8} text-anchor="end">pair {n - 1}</text>
            </svg>
            </>
          ),
        };
      }}
    </Figure>
  );
}

export function QLengthFigure() {
  return (
    <Figure id="q-length" title="Which rotations the heads use" command={commands.trace("*.attn.hook_rot_q")} sites={["rope.q_length"]} absent={absent}
      how="Mean length of each pair of the queries in the first and the last layer. A head with long fast pairs (left) cares about exact distances; one with long slow pairs (right) about content.">
      {([v]) => {
        void dark.value;
        const [, H, n] = v.shape;
        const layers = n_layers > 1 ? [0, n_layers - 1] : [0];
        const largest = Math.max(...Array.from(v.data).filter(Number.isFinite), 1e-12);
        let best = 0;
        v.data.forEach((x, i) => { if (x > v.data[best]) best = i; });
        const cell = Math.max(4, Math.min(36, Math.floor(500 / n)));
        return {
          says: <>The longest pair, of length {short(largest)}, is pair {best % n} of head {Math.floor(best / n / H)}.{Math.floor(best / n) % H}.</>,
          draws: (
            <>
              <div class="how"><Ramp low="0" high={short(largest)} /></div>
              <div class="panels">
                {layers.map((l) => (
                  <svg key={l} viewBox={`-40 -4 ${n * cell + 44} ${H * 18 + 26}`} width={n * cell + 44} role="img" aria-label={`lengths in layer ${l}`}>
                    {Array.from({ length: H }, (_, h) => (
                      <g key={h}>
                        <text x="-8" y={h * 18 + 12} text-anchor="end">{l}.{h}</text>
                        {Array.from({ length: n }, (_, i) => { const x = v.data[(l * H + h) * n + i]; return Number.isFinite(x) && <rect key={i} x={i * cell} y={h * 18} width={cell} height="16" fill={css(magnitudeOf(x / largest))} {...mark("rope.q_length", [l, h, i], x, "cell")} />; })}
                      </g>
                    ))}
                    <text x="0" y={H * 18 + 16}>fast pairs</text><text x={n * cell} y={H * 18 + 16} text-anchor="end">slow pairs</text>
                  </svg>
                ))}
              </div>
            </>
          ),
        };
      }}
    </Figure>
  );
}
