// The page of `vitrine look`.
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { firstRead, index, names, values } from "./data";
import { grouped, scaled } from "./format";
import { Chip, print, useGradually } from "./parts";
import * as commands from "./commands";
import { DifferenceFigure, RunFigure } from "./change";
import { FeaturesFigure } from "./features";
import { after, cursor, enlarged, followLink, go, head, headsOf, keysShown, layer, n_tokens, position, state } from "./state";
import { DirectionsFigure, PredictionsFigure, TextFigure } from "./text";
import { CosineFigure, NeighborsFigure } from "./embedding";
import { FinalNormFigure, LedgerFigure, NormGrowthFigure, UpdateScaleFigure } from "./stream";
import { AttentionFigure } from "./attention";
import { QLengthFigure, RotaryPairFigure, WavelengthsFigure } from "./rotary";
import { ActivationFigure, MlpGatedFigure, MlpGatedReluFigure, MlpLinearFigure, MlpRegionsFigure, MlpReluFigure, MlpSlicesFigure } from "./mlp";
import { AccountFigure, ArchitectureFigure, ConfigFigure, ParametersFigure } from "./model";
import { CellFigure, termsOf } from "./cells";
import { HeadsFigure, LensFigure } from "./lens";
import { StatesFigure } from "./states";
import { JoiningFigure, LabelFigure, PartsFigure, WordsFigure } from "./label";
import { AttributionFigure, PatchFigure } from "./attribution";
import { FunnelFigure } from "./funnel";
import { SitesFigure } from "./sites";
import { startHighlighting } from "./highlight";

type Section = { id: string; title: string; about: string; figures: [string, string, () => preact.JSX.Element][] };

const ofLanguage: Section[] = [
  { id: "reading", title: "Reading and predicting", about: "A language model reads tokens and gives, at every position, a probability to each token that could follow.", figures: [["text", "The text", TextFigure], ["predictions", "Predictions", PredictionsFigure], ["funnel", "Sampling", FunnelFigure]] },
  { id: "embedding", title: "From tokens to vectors", about: "Each token becomes a vector; at the end, the last vector is compared with the vector of every token.", figures: [["embedding-cosine", "Cosines", CosineFigure], ["neighbours", "Neighbors", NeighborsFigure], ["directions", "Logits", DirectionsFigure]] },
  { id: "attention", title: "Attention", about: "In every layer, each head reads from earlier positions.", figures: [["attention-maps", "All maps", AttentionFigure], ["heads", "Head scores", HeadsFigure], ["states", "States", StatesFigure], ["rotary-pair", "Rotation", RotaryPairFigure], ["wavelengths", "Wavelengths", WavelengthsFigure], ["q-length", "Queries", QLengthFigure]] },
  { id: "stream", title: "The stream", about: "Between the layers runs one vector per position, to which attention and MLPs add.", figures: [["lens", "Logit lens", LensFigure], ...(index.saes.length > 0 ? [["features", "Features", FeaturesFigure] as Section["figures"][number]] : []), ["attribution", "Attribution", AttributionFigure], ["difference", "A change", DifferenceFigure], ["patch", "Patching", PatchFigure], ["ledger", "Ledger", LedgerFigure], ["update-scale", "Updates", UpdateScaleFigure], ["norm-growth", "Norms", NormGrowthFigure], ["final-norm", "Final norm", FinalNormFigure]] },
  { id: "mlp", title: "Inside an MLP", about: "An MLP works on each position alone. Three of its units can be drawn as a surface.", figures: [["mlp-linear", "Linear", MlpLinearFigure], ["mlp-regions", "Regions", MlpRegionsFigure], ["mlp-relu", "ReLU", MlpReluFigure], ["mlp-gated-relu", "Gated ReLU", MlpGatedReluFigure], ["mlp-gated", "The model’s own", MlpGatedFigure], ["mlp-slices", "Slices", MlpSlicesFigure], ["activation", "Activation", ActivationFigure]] },
  { id: "model", title: "The model", about: "What it consists of, and what it costs.", figures: [["architecture", "Architecture", ArchitectureFigure], ["config", "Config", ConfigFigure], ["parameters", "Parameters", ParametersFigure], ["account", "Cost", AccountFigure], ["run", "Training", RunFigure], ["cell", "One number", CellFigure], ["sites", "Any value", SitesFigure]] },
];

/// Of a model with labels.
const ofLabels: Section[] = [
  { id: "reading", title: "Reading and judging", about: "The model reads whole texts and gives each label a number.", figures: [["label", "The label", LabelFigure], ["words", "The words", WordsFigure]] },
  { id: "why", title: "Why", about: "What has written the output, and where the texts meet.", figures: [["attribution", "Attribution", PartsFigure], ["joining", "Two texts", JoiningFigure]] },
  { id: "attention", title: "Attention", about: "In every layer, each head reads from other positions.", figures: [["attention-maps", "All maps", AttentionFigure], ["heads", "Head scores", HeadsFigure], ["rotary-pair", "Rotation", RotaryPairFigure], ["wavelengths", "Wavelengths", WavelengthsFigure], ["q-length", "Queries", QLengthFigure]] },
  { id: "model", title: "The model", about: "What it consists of.", figures: [["architecture", "Architecture", ArchitectureFigure], ["config", "Config", ConfigFigure], ["parameters", "Parameters", ParametersFigure], ["sites", "Any value", SitesFigure]] },
];
const sections = index.label ? ofLabels : ofLanguage;

const anchor = (id: string) => (e: Event) => {
  e.preventDefault();
  document.getElementById(id)?.scrollIntoView();
};

function Contents() {
  return (
    <nav class="contents" aria-label="Contents">
      {sections.map((s) => (
        <ul key={s.id}>
          <li><a href={`#figure=${s.id}`} onClick={anchor(s.id)}><strong>{s.title}</strong></a></li>
          {s.figures.map(([id, title]) => <li key={id}><a href={`#figure=${id}`} onClick={anchor(id)}>{title}</a></li>)}
        </ul>
      ))}
    </nav>
  );
}

function Keys() {
  if (!keysShown.value) return null;
  const rows: [string, string][] = [["← →", "position; in an enlarged map, the cursor"], ["↑ ↓", "layer; in an enlarged map, the cursor"], ["[ ]", "head"], ["Enter", "enlarge the map"], ["Esc", "back"], ["/", "find a site"], ["x", "with or without the change"], ["?", "these keys"]];
  return <div class="keys" role="note"><table><tbody>{rows.map(([k, what]) => <tr key={k}><th scope="row"><kbd>{k}</kbd></th><td class="left">{what}</td></tr>)}</tbody></table></div>;
}

function onKey(e: KeyboardEvent) {
  const at = e.target as HTMLElement;
  if ((e.ctrlKey || e.metaKey) && e.key === "p") {
    e.preventDefault();
    void print();
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (at.matches("input")) {
    if (e.key === "Escape") at.blur();
    return;
  }
  const [t, s] = cursor.value;
  const steps: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[e.key];
  if (step) {
    if (enlarged.value) go({ cursor: [t + step[0], s + step[1]] });
    else if (step[1]) go({ position: position.value + step[1] });
    else if (at.matches(".scroll, .scroll *")) return;
    else if (at.matches("button, a, summary")) go({ layer: layer.value + step[0] });
    else if (e.shiftKey || document.activeElement === document.body) go({ layer: layer.value + step[0] });
  } else if (e.key === "[" || e.key === "]") {
    go({ head: (head.value + (e.key === "]" ? 1 : -1) + headsOf(layer.value)) % headsOf(layer.value) });
  } else if (e.key === "Enter" && !at.matches("button, a, summary")) {
    go({ enlarged: true, cursor: [position.value, s] });
    (document.getElementById(`layer-${layer.value}`) ?? document.getElementById("attention-maps"))?.scrollIntoView({ block: "start" });
  } else if (e.key === "Escape") {
    if (keysShown.value) keysShown.value = false;
    else go({ enlarged: false });
  } else if (e.key === "/") {
    document.getElementById("sites")?.scrollIntoView();
    document.getElementById("find")?.focus();
  } else if (e.key === "x" && index.after) {
    go({ after: !after.value });
  } else if (e.key === "?") {
    keysShown.value = !keysShown.value;
  } else {
    return;
  }
  e.preventDefault();
}

/// The text, always in view.
function Text() {
  const list = useRef<HTMLDivElement>(null);
  const drawn = useGradually(n_tokens, 128);
  const p = position.value;
  useEffect(() => {
    const chip = list.current!.children[p] as HTMLElement | undefined;
    if (chip) list.current!.scrollTop = chip.offsetTop - list.current!.offsetTop - chip.offsetHeight;
  }, [p, drawn]);
  return <div class="chips" role="group" aria-label="the text" ref={list}>{index.ids.slice(0, drawn).map((_, t) => <Chip key={t} t={t} />)}</div>;
}

function Page() {
  useEffect(() => {
    addEventListener("keydown", onKey);
    startHighlighting();
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <header class="bar-of-tokens">
        <Text />
        {index.after && <div class="choices" role="group" aria-label="which run"><button type="button" class="chip" aria-pressed={!after.value} onClick={() => go({ after: false })}>without the change</button><button type="button" class="chip" aria-pressed={after.value} onClick={() => go({ after: true })}>with {index.after.set.join(", ") || "the other text"}</button></div>}
      </header>
      <div class="columns">
        <Contents />
        <main>
          <h1>Inside {index.model}</h1>
          <p class="lead">{n_tokens} tokens through {index.layers.length} layers and {scaled(index.params)} parameters ({index.description}). Every number is from one run of the model. Press <kbd>?</kbd> for the keys.</p>
          {sections.map((s) => (
            <section key={s.id} aria-labelledby={s.id}>
              <h2 id={s.id}>{s.title}</h2>
              <p class="lead">{s.about}</p>
              {s.figures.map(([id, , Drawn]) => <Drawn key={id} />)}
            </section>
          ))}
          <section aria-labelledby="contains">
            <h2 id="contains">What this file contains</h2>
            <ul class="contains">{index.contains.map((c) => <li key={c.what}>{c.what}{c.exact ? "" : " (≈)"}</li>)}</ul>
            {index.left_out.length > 0 && <p>Left out, because of the size limit: {index.left_out.map((c) => `${c.what.replace(", in 8 bits", "")} in full (${c.option})`).join("; ")}.</p>}
            <p class="lead">{grouped(index.values.length)} arrays. Made by vitrine; the program in this file loads nothing from the network.</p>
          </section>
        </main>
      </div>
      <Keys />
    </>
  );
}

const figure = followLink();
let ready!: () => void;
const whenReady = new Promise<void>((done) => (ready = done));
/// How a value was made; rejects for a value that is not spelled in this file.
async function cell(name: string) {
  const c = index.cells.find((x) => x.name === name);
  if (!c) throw new Error(`${name} is not spelled in this file; ${commands.spell(name)} spells it`);
  const terms = c.groups ? termsOf(c, await values(`cell:${name}`)) : [];
  return { value: c.value, formula: c.formula === undefined ? "" : index.formulas[c.formula], terms, result: c.result ?? c.value, parents: c.parents ?? [] };
}
Object.assign(window, { vitrine: { ready: whenReady, names, values, cell, state, go } });
const root = document.getElementById("page")!;
const first = sections[0].figures.slice(0, 2).map(([id]) => id);
const watch = () => {
  if (!first.every((id) => document.querySelector(`#${id}[data-drawn], #${id}[data-absent]`))) return requestAnimationFrame(watch);
  document.documentElement.dataset.ready = "";
  if (figure) document.getElementById(figure)?.scrollIntoView();
  ready();
  return 0;
};
void firstRead.then(() => {
  root.replaceChildren();
  render(<Page />, root);
  watch();
});
