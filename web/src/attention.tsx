// Every attention map, and one enlarged.
import { useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { has, index, type Values } from "./data";
import { Chip, Figure, Map_, Ramp, mark, useSeen, useValues } from "./parts";
import { exactly, percent, quoted, short, token } from "./format";
import { cursor, enlarged, go, head, ids, layer, n_layers, n_tokens, named, position, sort } from "./state";
import { showCell } from "./cells";
import * as commands from "./commands";

const pattern = (l: number) => `blocks.${l}.attn.hook_pattern`;
const withMaps = () => Array.from({ length: n_layers }, (_, l) => l).filter((l) => has(pattern(l)));

function Tile(p: { l: number; h: number; v: Values; about?: string }) {
  const { l, h, v } = p;
  const on = useComputed(() => layer.value === l && head.value === h);
  const [rows, cols] = [v.shape[1], v.shape[2]];
  const group = index.layers[l].heads / index.layers[l].kv_heads;
  return (
    <button type="button" class={group > 1 ? "tile shares" : "tile"} data-head={`${l}.${h}`} aria-pressed={on.value}
      onClick={() => go(on.value ? { enlarged: !enlarged.value } : { layer: l, head: h, enlarged: true, cursor: [position.value, cursor.value[1]] })}>
      <Map_ site={pattern(l)} at={String(h)} rows={rows} cols={cols} data={v.data} from={h * rows * cols} most={160} total={[n_tokens, n_tokens]} />
      {l}.{h}{p.about ?? (group > 1 && ` · K/V ${Math.floor(h / group)}`)}
    </button>
  );
}

/// A tile whose map is read when it comes near the view.
function LateTile(p: { l: number; h: number; about: string }) {
  const [place, seen] = useSeen();
  const loaded = useValues([pattern(p.l)], seen);
  return <div ref={place as never} style={loaded ? {} : { minHeight: "9rem" }}>{loaded?.[0] && <Tile l={p.l} h={p.h} v={loaded[0]} about={p.about} />}</div>;
}

const keys = ["previous", "first", "current", "duplicate", "induction", "distance", "entropy"];

/// All maps, those with the largest score first.
function Sorted(p: { by: string }) {
  const loaded = useValues([`heads.${p.by}`, pattern(layer.value)], true);
  const v = loaded?.[0];
  if (!v) return null;
  const [, H] = v.shape;
  const order = Array.from(v.data.keys()).filter((i) => Number.isFinite(v.data[i]) && has(pattern(Math.floor(i / H)))).sort((a, b) => v.data[b] - v.data[a] || a - b);
  return (
    <>
      {enlarged.value && loaded[1] && <Enlarged v={loaded[1]} />}
      <div class="tiles">{order.map((i) => <LateTile key={i} l={Math.floor(i / H)} h={i % H} about={` · ${short(v.data[i])}`} />)}</div>
      {order.length === 0 && <p class="how">No token of this text occurs twice, so this score has no value.</p>}
    </>
  );
}

function Tiles(p: { l: number }) {
  const [place, seen] = useSeen();
  const about = index.layers[p.l];
  const isOpen = useComputed(() => enlarged.value && layer.value === p.l).value;
  const loaded = useValues([pattern(p.l)], seen || isOpen);
  const v = loaded?.[0];
  return (
    <div class="layer" id={`layer-${p.l}`} ref={place as never}>
      <div class="name" data-layer={p.l}>
        layer {p.l}
        {about.window !== null && <><br />window {about.window}</>}
      </div>
      <div class="tiles" style={v ? {} : { minHeight: "9rem" }}>
        {v && Array.from({ length: about.heads }, (_, h) => <Tile key={h} l={p.l} h={h} v={v} />)}
      </div>
      {isOpen && v && <Enlarged v={v} />}
    </div>
  );
}

/// One row of a map as bars, from the scores to the weights.
function Steps(p: { l: number; h: number; t: number }) {
  const site = (name: string) => `blocks.${p.l}.attn.hook_${name}`;
  const followed = p.t === index.position;
  const names = ["scores_raw", "attn_scores", "pattern"].map((n) => (followed ? `${site(n)}[:,${p.t}]` : site(n)));
  const sinkName = followed ? `${site("sink")}[${p.t}]` : site("sink");
  const loaded = useValues([...names, sinkName], true);
  if (!loaded) return null;
  const [raw, scores, weights, sink] = loaded;
  if (!raw || !scores || !weights) return <p class="how">The scores of this row are not in the file. Start vitrine look with --position {p.t}, or a larger --max-size.</p>;
  const S = raw.shape[raw.shape.length - 1];
  const from = followed ? p.h * S : (p.h * n_tokens + p.t) * S;
  const at = (s: number) => (followed ? [p.h, s] : [p.h, p.t, s]);
  const cap = index.layers[p.l].softcap;
  const visible = Array.from({ length: S }, (_, s) => s).filter((s) => scores.data[from + s] > -Infinity);
  const rows = visible.length > 20 ? [...visible].sort((a, b) => weights.data[from + b] - weights.data[from + a]).slice(0, 20).sort((a, b) => a - b) : visible;
  const cell = (v: Values, name: string, s: number) => <td><span {...mark(name, at(s), v.data[from + s], "text", true)}>{short(v.data[from + s])}</span></td>;
  const nothing = sink && sink.data[followed ? p.h : p.t * index.layers[p.l].heads + p.h];
  const ofSink = nothing !== undefined && ((kind: "text" | "bar") => mark(sinkName, followed ? [p.h] : [p.t, p.h], nothing, kind, true));
  return (
    <>
      <h4>Row {p.t}, {token(ids()[p.t])}: from scores to weights</h4>
      <table>
        <thead><tr><th class="left">key</th><th>q · k, scaled</th>{cap !== null && <th>capped at {cap}</th>}<th>weight</th><th class="left">softmax</th></tr></thead>
        <tbody>
          {rows.map((s) => (
            <tr key={s}>
              <th scope="row">{s} <bdi class="token">{token(ids()[s])}</bdi></th>
              {cell(raw, names[0], s)}
              {cap !== null && cell(scores, names[1], s)}
              {cell(weights, names[2], s)}
              <td class="barcell"><span class="track"><span class="bar" style={{ width: `${100 * weights.data[from + s]}%`, background: "var(--attention)" }} {...mark(names[2], at(s), weights.data[from + s], "bar", true)} /></span></td>
            </tr>
          ))}
          {ofSink && (
            <tr data-nothing>
              <th scope="row">nothing</th>
              <td />
              {cap !== null && <td />}
              <td><span {...ofSink("text")}>{short(nothing!)}</span></td>
              <td class="barcell"><span class="track"><span class="bar" style={{ width: `${100 * nothing!}%`, background: "var(--attention)" }} {...ofSink("bar")} /></span></td>
            </tr>
          )}
        </tbody>
      </table>
      {ofSink && <p class="how">This head has a sink: the softmax has one more score, and what it gets is the weight of nothing. The others add up to 1 less that.</p>}
      <p class="how">{S - visible.length > 0 ? `${S - visible.length} later or distant positions are masked: their score is −∞ and their weight 0.` : "No position is masked in this row."}{rows.length < visible.length && ` The 20 largest weights are shown, of ${visible.length}.`}</p>
      {cap !== null && <Softcap cap={cap} name={names[0]} points={visible.map((s) => [s, raw.data[from + s]])} />}
    </>
  );
}

function Softcap(p: { cap: number; name: string; points: number[][] }) {
  const limit = Math.max(p.cap * 1.2, ...p.points.map(([, x]) => Math.abs(x) * 1.1));
  const x = (v: number) => 130 + (v / limit) * 120;
  const y = (v: number) => 60 - (v / limit) * 55;
  const curve = Array.from({ length: 81 }, (_, i) => ((i - 40) / 40) * limit);
  return (
    <svg viewBox="0 0 320 124" width="320" role="img" aria-label="the softcap curve with the points of this row">
      <path class="axis" d="M10 60H250M130 2V118" />
      <path class="guide" d={`M${x(-limit)} ${y(-limit)}L${x(limit)} ${y(limit)}`} />
      <path class="attention" d={"M" + curve.map((v) => `${x(v).toFixed(1)} ${y(p.cap * Math.tanh(v / p.cap)).toFixed(1)}`).join("L")} />
      {p.points.map(([s, v]) => <circle key={s} class="dot attention" cx={x(v)} cy={y(p.cap * Math.tanh(v / p.cap))} r="3" />)}
      <text x="256" y="64">± {p.cap}</text>
    </svg>
  );
}

function Enlarged(p: { v: Values }) {
  const area = useRef<HTMLDivElement>(null);
  const l = layer.value, h = head.value;
  const [rows, cols] = [p.v.shape[1], p.v.shape[2]];
  const scale = n_tokens / rows;
  const [t, s] = cursor.value;
  const [y, x] = [Math.floor(t / scale), Math.floor(s / scale)];
  const at = (h * rows + y) * cols + x;
  const weight = p.v.data[at];
  useEffect(() => {
    area.current?.querySelector<HTMLElement>(".map-area")?.focus({ preventScroll: true });
  }, [l, h]);
  const move = (e: PointerEvent) => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
    go({ cursor: [Math.floor(((e.clientY - box.top) / box.height) * n_tokens), Math.floor(((e.clientX - box.left) / box.width) * n_tokens)] });
  };
  return (
    <div class="enlarged" ref={area} style={{ gridColumn: "1 / -1" }}>
      <div>
        <h4>Head {l}.{h}</h4>
        <div class="map-area" tabIndex={0} role="group" aria-label={`map of head ${l}.${h}; arrow keys move the cursor`} onPointerMove={move} onPointerDown={(e) => { move(e); go({ position: cursor.value[0] }); }}>
          <Map_ site={pattern(l)} at={String(h)} rows={rows} cols={cols} data={p.v.data} from={h * rows * cols} most={1024} total={[n_tokens, n_tokens]} />
          <span class="crosshair" style={{ top: `${(100 * (y + 0.5)) / rows}%`, left: `${(100 * (x + 0.5)) / cols}%` }} />
        </div>
        <output data-site={named(pattern(l))} data-index={`${h},${t},${s}`} data-value={exactly(weight, true)} aria-live="polite">
          {s > t ? <>Position {t} cannot see position {s}.</> : <>{quoted(ids()[t])} (row {t}) gives {quoted(ids()[s])} (column {s}) {p.v.exact ? "" : "≈ "}{percent(weight)} of its weight.</>}
        </output>
        <div class="how"><Ramp low="0" high="1" /> Rows are the tokens that look, columns those that they look at. Arrow keys move the cursor; Esc closes.</div>
        <div class="chips"><Chip key={`row ${t}`} t={t} /> → <Chip key={`column ${s}`} t={s} /> <button type="button" class="plain" onClick={() => showCell(`${pattern(l)}[${h},${t},${s}]`)}>How was this number made?</button></div>
      </div>
      <div><Steps l={l} h={h} t={t} /></div>
    </div>
  );
}

/// The flattest and the most decided head.
function sentence(entropy: Values) {
  const H = entropy.shape[1];
  let sharp = 0, flat = 0;
  entropy.data.forEach((x, i) => {
    if (x < entropy.data[sharp]) sharp = i;
    if (x > entropy.data[flat]) flat = i;
  });
  return <>Head {Math.floor(sharp / H)}.{sharp % H} is the most decided, with a mean entropy of {short(entropy.data[sharp])} nats; head {Math.floor(flat / H)}.{flat % H} spreads its weight most ({short(entropy.data[flat])}).</>;
}

export function AttentionFigure() {
  const layers = withMaps();
  const P = index.position;
  return (
    <Figure id="attention-maps" title="Where each head looks" wide command={commands.trace("*.attn.hook_pattern", "*.attn.hook_scores_raw", "*.attn.hook_attn_scores")}
      absent={layers.length === 0 && "This model has no attention."} sites={["heads.entropy", ...layers.slice(0, 1).map((l) => `${pattern(l)}[:,${P}]`)]}
      how="One map for each head: rows are the tokens that look, from top to bottom; columns are the tokens that they look at. The stronger the color, the larger the weight; each row adds up to 1, or to less by what a sink takes. Heads that share keys and values have the same K/V number. Select a map to enlarge it."
      note="Attention is the only sublayer that moves information between positions. Weights above the diagonal are 0, because a token cannot see later ones.">
      {([entropy]) => ({
        says: sentence(entropy),
        draws: (
          <>
            <div class="choices" role="group" aria-label="order of the maps">
              {["", ...keys].map((k) => <button key={k} type="button" class="chip" aria-pressed={sort.value === k} onClick={() => go({ sort: k })}>{k ? `by ${k}` : "by layer"}</button>)}
            </div>
            <div class="how"><Ramp low="0" high="1" /></div>
            {keys.includes(sort.value) ? <Sorted by={sort.value} /> : layers.map((l) => <Tiles key={l} l={l} />)}
          </>
        ),
      })}
    </Figure>
  );
}
