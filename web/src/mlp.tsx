// A real slice of an MLP: 2 inputs, 3 units, 2 outputs.
import { has, index, type Values } from "./data";
import { Figure, mark, spread } from "./parts";
import { short } from "./format";
import { css, signOf } from "./color";
import { chartWidth, dark } from "./state";
import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import * as commands from "./commands";

const layer = index.mlp?.layer ?? 0;
const gated = index.layers[layer].gated;
const noMlp = index.mlp === null && "This model has experts in place of dense MLPs.";
const absent = noMlp || (index.position === 0 ? "This figure compares two positions, and there is none before the followed one." : !has("mlp.units") && "The inputs of the two positions have one direction, so they span no plane.");
const noGate = !gated && "The MLPs of this model have no gate.";
const command = commands.trace(`blocks.${layer}.mlp.hook_*`, index.mlp?.input ?? "");
const N = 41;

/// A surface over [−2, 2]², drawn back to front.
function Surface(p: { v: Values; site: string }) {
  void dark.value;
  const { data } = p.v;
  const most = Math.max(...Array.from(data, Math.abs), 1e-12);
  const project = (i: number, j: number, z: number) => [150 + (i - j) * 3.2, 96 + (i + j - 40) * 1.9 - (z / most) * 60];
  const step = 2;
  const heights = Array.from(data, (z, k) => project(Math.floor(k / N), k % N, z)[1]);
  const top = Math.min(...heights, 20) - 6, bottom = Math.max(...heights, 172);
  const quads = [];
  for (let i = 0; i + step < N; i += step) {
    for (let j = 0; j + step < N; j += step) {
      const corners = [[i, j], [i + step, j], [i + step, j + step], [i, j + step]];
      const z = corners.reduce((sum, [a, b]) => sum + data[a * N + b], 0) / 4;
      quads.push(<path key={`${i},${j}`} d={"M" + corners.map(([a, b]) => project(a, b, data[a * N + b]).map((c) => c.toFixed(1)).join(" ")).join("L") + "Z"} fill={css(signOf((0.9 * z) / most))} stroke="var(--line)" stroke-width="0.4" {...mark(p.site, [i, j], data[i * N + j], "cell")} />);
    }
  }
  return (
    <svg viewBox={`0 ${top} 300 ${bottom - top + 42}`} width="360" role="img" aria-label={p.site}>
      <path class="guide" d={"M" + [[0, 0], [N - 1, 0], [N - 1, N - 1], [0, N - 1]].map(([i, j]) => project(i, j, 0).join(" ")).join("L") + "Z"} />
      {quads}
      <text x="86" y={bottom + 18} text-anchor="middle">x₁, −2 to 2 →</text><text x="214" y={bottom + 18} text-anchor="middle">← x₂, 2 to −2</text><text x="150" y={bottom + 36} text-anchor="middle">height up to ± {short(most)}</text>
    </svg>
  );
}

function SurfaceFigure(p: { id: string; title: string; site: string; how: string; absent?: string | false; says: (v: Values) => preact.ComponentChildren }) {
  return (
    <Figure id={p.id} title={p.title} command={command} sites={[p.site]} absent={absent || p.absent} how={p.how}>
      {([v]) => ({ says: p.says(v), draws: <Surface v={v} site={p.site} /> })}
    </Figure>
  );
}

const bend = (v: Values) => { const [low, high] = [Math.min(...v.data), Math.max(...v.data)]; return <>On this square the output goes from {short(low)} to {short(high)}.</>; };

export const MlpLinearFigure = () => <SurfaceFigure id="mlp-linear" title="Without an activation, a plane" site="mlp.surface.linear" says={bend} how={`Three units of layer ${layer}, those that are largest at the followed position, as a map from two inputs to one output. Without an activation function the three add up to a plane.`} />;
export const MlpReluFigure = () => <SurfaceFigure id="mlp-relu" title="With ReLU, a folded plane" site="mlp.surface.relu" says={bend} how="The same weights with max(0, z) in between: flat pieces that meet at the lines where a unit opens." />;
export const MlpGatedReluFigure = () => <SurfaceFigure id="mlp-gated-relu" title="With a gate, curved pieces" site="mlp.surface.gated_relu" absent={noGate} says={bend} how="A gated MLP multiplies two linear functions of the input, so that each piece is curved. Here with ReLU as the gate." />;
export const MlpGatedFigure = () => <SurfaceFigure id="mlp-gated" title="As the model computes it" site={gated ? "mlp.surface.gated" : "mlp.surface.activation"} says={bend} how="The same slice with the model’s own activation function: the folds become smooth." />;

const dashes = ["", "7 3", "2 3"];

export function MlpRegionsFigure() {
  const inner = gated ? "mlp.gate" : "mlp.up";
  return (
    <Figure id="mlp-regions" title="Which units are open where" command={command} sites={[inner, "mlp.units"]} absent={absent}
      how="Each line is where the input of one unit is zero; the unit is open on the side of the short strokes. The regions between the lines are the flat pieces of the folded plane. The dot is the vector of the followed position, at (1, 0).">
      {([w, units]) => ({
        says: <>The three units are {Array.from(units.data).join(", ")} of layer {layer}.</>,
        draws: (
          <svg viewBox="-130 -130 400 270" width="400" role="img" aria-label="regions of open units">
            <rect class="axis" x="-120" y="-120" width="240" height="240" /><path class="axis" d="M-120 0H120M0 -120V120" />
            {[0, 1, 2].map((u) => {
              const [a, b] = [w.data[2 * u], w.data[2 * u + 1]];
              const l = Math.hypot(a, b) || 1;
              const [dx, dy] = [(-b / l) * 168, (a / l) * 168];
              const k = Math.min(1, 120 / Math.max(Math.abs(dx), Math.abs(dy)));
              const strokes = [-0.85, -0.6, -0.35, 0.35, 0.6, 0.85].map((s) => [dx * k * (s + 0.07 * u), -dy * k * (s + 0.07 * u)]);
              return (
                <g key={u}>
                  <line class="mlp" stroke-width="1.5" stroke-dasharray={dashes[u]} x1={-dx * k} y1={dy * k} x2={dx * k} y2={-dy * k} {...mark(inner, [u, 0], a, "dot")} />
                  <path class="mlp" d={strokes.map(([x, y]) => `M${x} ${y}l${(a / l) * 8} ${(-b / l) * 8}`).join("")} />
                  <line class="mlp" stroke-width="1.5" stroke-dasharray={dashes[u]} x1="158" x2="190" y1={-100 + 20 * u} y2={-100 + 20 * u} /><text class="ink" x="198" y={-96 + 20 * u}>unit {units.data[u]}</text>
                </g>
              );
            })}
            <circle class="dot stream" cx="60" cy="0" r="4" /><text x="60" y="18" text-anchor="middle">x</text><text x="126" y="4">x₁</text><text x="0" y="136" text-anchor="middle">x₂</text>
          </svg>
        ),
      })}
    </Figure>
  );
}

export function MlpSlicesFigure() {
  const site = gated ? "mlp.surface.gated" : "mlp.surface.activation";
  return (
    <Figure id="mlp-slices" title="Slices through the surface" command={command} sites={[site, "mlp.surface.relu"]} absent={absent}
      how="The output along x₂, with x₁ held at −1, 0 and 1.">
      {([v]) => {
        const slice = (i: number) => Array.from(v.data.slice(i * N, i * N + N));
        const all = [10, 20, 30].flatMap(slice);
        const W = chartWidth();
        const x = scaleLinear([0, N - 1], [56, W - 70]), y = scaleLinear([Math.min(0, ...all), Math.max(0, ...all) || 1], [172, 14]);
        const ends = spread([10, 20, 30].map((i) => y(v.data[i * N + N - 1])));
        return {
          says: <>At the vector of the followed position, x₁ = 1 and x₂ = 0, the output is {short(v.data[30 * N + 20])}.</>,
          draws: (
            <svg viewBox={`0 0 ${W} 210`} width={W} role="img" aria-label="slices">
              {y.ticks(4).map((t) => <g key={t}><line class="axis" x1={x(0)} x2={x(N - 1)} y1={y(t)} y2={y(t)} /><text x={x(0) - 8} y={y(t) + 4} text-anchor="end">{y.tickFormat(4)(t)}</text></g>)}
              {[-2, -1, 0, 1, 2].map((t) => <text key={t} x={x(10 * (t + 2))} y="192" text-anchor="middle">{short(t)}</text>)}<text x={x(20)} y="208" text-anchor="middle">x₂</text>
              {[10, 20, 30].map((i, k) => (
                <g key={i}>
                  <path class="mlp" opacity={0.4 + 0.3 * k} d={line<number>((_, j) => x(j), (z) => y(z))(slice(i))!} />
                  <circle class="dot mlp" cx={x(N - 1)} cy={y(v.data[i * N + N - 1])} r="3" {...mark(site, [i, N - 1], v.data[i * N + N - 1], "dot")} />
                  <text class="ink" x={x(N - 1) + 8} y={ends[k] + 4}>x₁ = {short(i / 10 - 2)}</text>
                </g>
              ))}
            </svg>
          ),
        };
      }}
    </Figure>
  );
}

export function ActivationFigure() {
  const P = index.position;
  const pre = `blocks.${layer}.mlp.hook_pre[${P}]`;
  return (
    <Figure id="activation" title="The activation function" command={command} sites={["activation.x", "activation.y", pre]} absent={noMlp}
      how={`The model’s activation function next to ReLU (dashed), and below it every unit of layer ${layer} at the followed position, placed at its input.`}>
      {([xs, ys, p]) => {
        const W = chartWidth() - 40;
        const x = (v: number) => W / 2 + Math.max(-6.2, Math.min(6.2, v)) * (W / 13.7), y = (v: number) => 130 - v * 20;
        const closed = Array.from(p.data).filter((v) => v < 0).length;
        return {
          says: <>{closed} of the {p.data.length} units have a negative input at position {P}, so they are nearly closed.</>,
          draws: (
            <svg viewBox={`0 0 ${W} 190`} width={W} role="img" aria-label="the activation function with this row's units">
              <path class="axis" d={`M${x(-6)} ${y(0)}H${x(6)}M${x(0)} 8V${y(-0.6)}`} />
              <path class="guide" d={`M${x(-6)} ${y(0)}H${x(0)}L${x(6)} ${y(6)}`} />
              <path class="mlp" d={line<number>((_, i) => x(xs.data[i]), (v) => y(v))(Array.from(ys.data))!} />
              {Array.from(p.data, (v, i) => <line key={i} class="mlp" opacity="0.25" x1={x(v)} x2={x(v)} y1="150" y2="166" {...(i < 400 ? mark(pre, [i], v, "dot", true) : {})} />)}
              {[-6, -3, 3, 6].map((t) => <text key={t} x={x(t)} y="184" text-anchor="middle">{t < 0 ? "−" + -t : t}</text>)}
            </svg>
          ),
        };
      }}
    </Figure>
  );
}
