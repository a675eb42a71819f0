// What each recurrence reads of its state, how long the state holds it, and how large the state is.
import { has, index, type Values } from "./data";
import { Figure, Map_, Num, Ramp, mark, useSeen, useValues } from "./parts";
import { short } from "./format";
import { n_layers, n_tokens, position } from "./state";
import * as commands from "./commands";

const weights = (l: number) => `states.weight.${l}`;
const halfLives = (l: number) => `states.half_life.${l}`;
const sizes = (l: number) => `states.size.${l}`;
const withStates = () => Array.from({ length: n_layers }, (_, l) => l).filter((l) => has(sizes(l)));

/// The size of one head's state after each token; the largest of the layer is the height of the drawing.
function Sizes(p: { l: number; h: number; v: Values; largest: number }) {
  const at = (t: number) => p.v.data[p.h * n_tokens + t];
  const x = (t: number) => (n_tokens > 1 ? (160 * t) / (n_tokens - 1) : 80);
  const y = (t: number) => 32 - (30 * at(t)) / (p.largest || 1);
  const t = position.value;
  return (
    <svg viewBox="0 0 160 34" width="160" role="img" aria-label={`size of the state of head ${p.l}.${p.h} over the text`}>
      <path class="attention" d={"M" + Array.from({ length: n_tokens }, (_, i) => `${x(i).toFixed(1)} ${y(i).toFixed(1)}`).join("L")} />
      <circle class="dot attention" cx={x(t)} cy={y(t)} r="3" {...mark(sizes(p.l), [p.h, t], at(t), "dot")} />
    </svg>
  );
}

function Layer(p: { l: number }) {
  const { l } = p;
  const [place, seen] = useSeen();
  const loaded = useValues([weights(l), halfLives(l), sizes(l)], seen);
  const [map, half, size] = loaded ?? [];
  return (
    <div class="layer" ref={place as never}>
      <div class="name">layer {l}</div>
      <div class="tiles" style={loaded ? {} : { minHeight: "9rem" }}>
        {map && half && size && Array.from({ length: half.shape[0] }, (_, h) => (
          <div key={h} class="tile">
            <Map_ site={weights(l)} at={String(h)} rows={map.shape[1]} cols={map.shape[2]} data={map.data} from={h * map.shape[1] * map.shape[2]} most={160} />
            <Sizes l={l} h={h} v={size} largest={Math.max(...size.data)} />
            <span>{l}.{h} · {Number.isFinite(half.data[h]) ? <>half-life <Num site={halfLives(l)} at={[h]} v={half} i={h} /></> : "nothing decays"}</span>
          </div>
        ))}
      </div>
    </div>
  );
}

/// The layer and head that hold what they read the longest.
function sentence(layers: number[], lives: Values[]) {
  let [best, l0, h0] = [-Infinity, 0, 0];
  lives.forEach((v, i) => v.data.forEach((x, h) => { if (x > best) [best, l0, h0] = [x, layers[i], h]; }));
  return best > 0 ? <>Head {l0}.{h0} holds what it reads the longest: half of it is left after {short(best)} tokens.</> : <>Nothing decays in these states.</>;
}

export function StatesFigure() {
  const layers = withStates();
  return (
    <Figure id="states" title="What each state remembers" wide command={commands.of("heads", "", "*.hook_effective_attention")}
      absent={layers.length === 0 && "This model has no layers with a state."} sites={layers.map(halfLives)}
      how="One map for each head of a recurrence: rows are the tokens that read the state, columns those that wrote what they read. The weights are the shares of |M|, the effective attention of the recurrence. Below each map, the size of the head’s state over the text. The half-life, in tokens, is that of the mean decay."
      note={`A state has a constant size, whatever the text’s length. What it no longer holds is lost: ${index.model} cannot look it up again in such a layer.`}>
      {(lives) => ({
        says: sentence(layers, lives),
        draws: <><div class="how"><Ramp low="0" high="1" /></div>{layers.map((l) => <Layer key={l} l={l} />)}</>,
      })}
    </Figure>
  );
}
