// The steps of src/generate/sampler.cpp and src/generate/filters.cpp in double precision, and their random numbers.

/// The options of the sampler, by name.
export type Sampling = Record<string, number>;

/// Philox4x32-10; a number in [0, 1) for (seed, sequence, step).
export function uniform(seed: bigint, sequence = 0n, step = 0n): number {
  const low = 0xffffffffn;
  let c = [step & low, step >> 32n, sequence & low, sequence >> 32n];
  let k0 = seed & low, k1 = seed >> 32n;
  for (let round = 0; round < 10; ++round) {
    const a = 0xd2511f53n * c[0], b = 0xcd9e8d57n * c[2];
    c = [(b >> 32n) ^ c[1] ^ k0, b & low, (a >> 32n) ^ c[3] ^ k1, a & low];
    k0 = (k0 + 0x9e3779b9n) & low;
    k1 = (k1 + 0xbb67ae85n) & low;
  }
  return Number(((c[0] << 32n) | c[1]) >> 11n) * 2 ** -53;
}

export interface Candidate {
  id: number;
  logit: number;
  /// The probability, compared with that of the most likely token.
  weight: number;
  prob: number;
  /// 0 kept, else the number of the filter that removed it, from 1
  removed: number;
}

const sum = (values: number[]) => values.reduce((a, b) => a + b, 0);

/// The number of the first weights that add up to at least `enough`.
function countTo(enough: number, weights: number[]): number {
  let kept = 0;
  for (let so_far = 0; kept < weights.length && so_far < enough; ++kept) so_far += weights[kept];
  return kept;
}

/// −log p of each candidate, and Σ p · −log p.
function surprise(w: number[]): [number[], number] {
  const total = sum(w);
  const each = w.map((x) => -Math.log(x / total));
  return [each, sum(w.map((x, i) => (x > 0 ? (x / total) * each[i] : 0)))];
}

function typical(w: number[], p: number): boolean[] {
  const [each, mean] = surprise(w);
  const distance = each.map((x) => Math.abs(x - mean));
  const order = w.map((_, i) => i).sort((a, b) => distance[a] - distance[b] || a - b);
  const farthest = distance[order[countTo(p * sum(w), order.map((i) => w[i])) - 1]];
  return distance.map((x) => x <= farthest);
}

function probable(w: number[], p: number): boolean[] {
  const least = p * sum(w);
  return w.map((x, i) => i === 0 || x === 1 || x >= least);
}

/// XTC, where it takes place: of the tokens that are likely enough only the least likely one remains.
function excluding(w: number[], c: Sampling): boolean[] {
  const total = sum(w);
  const n = c.xtc_probability > 0 && c.xtc_threshold <= 0.5 ? countWhile(w, (x) => x / total >= c.xtc_threshold) : 0;
  return w.map((_, i) => n < 2 || i + 1 >= n);
}

function nearLargest(logits: number[], n: number): boolean[] {
  const mean = sum(logits) / logits.length;
  const least = logits[0] - n * Math.sqrt(sum(logits.map((x) => (x - mean) ** 2)) / logits.length);
  return logits.map((x) => n <= 0 || x >= least);
}

function countWhile(w: number[], holds: (x: number) => boolean): number {
  const end = w.findIndex((x) => !holds(x));
  return end < 0 ? w.length : end;
}

/// What each filter keeps of the candidates, by the name of its option: `w` are their weights, most likely first.
const filters: Record<string, (w: number[], c: Sampling, logits: number[]) => boolean[]> = {
  top_n_sigma: (_, c, logits) => nearLargest(logits, c.top_n_sigma),
  top_k: (w, c) => w.map((_, i) => c.top_k === 0 || i < c.top_k),
  typical_p: (w, c) => (c.typical_p === 1 ? w.map(() => true) : typical(w, c.typical_p)),
  top_p: (w, c) => { const n = Math.max(1, countTo(c.top_p * sum(w), w)); return w.map((_, i) => c.top_p === 1 || i < n); },
  min_p: (w, c) => w.map((x) => x >= c.min_p * w[0]),
  epsilon_cutoff: (w, c) => probable(w, c.epsilon_cutoff),
  eta_cutoff: (w, c) => probable(w, Math.min(c.eta_cutoff, Math.sqrt(c.eta_cutoff) * Math.exp(-surprise(w)[1]))),
  xtc_probability: excluding,
};

/// All possible tokens, most likely first. `order` names the filters as the program applies them.
export function funnel(logits: { id: number; logit: number }[], history: Set<number>, c: Sampling, order: string[]): Candidate[] {
  const penalty = c.repeat_penalty;
  const all = logits.filter(({ logit }) => logit > -Infinity).map(({ id, logit }) => ({ id, logit: history.has(id) && penalty !== 1 ? (logit > 0 ? logit / penalty : logit * penalty) : logit }));
  all.sort((a, b) => b.logit - a.logit || a.id - b.id);
  const weights = all.map((x) => Math.exp((x.logit - all[0].logit) / c.temperature));
  const total = sum(weights);
  const result: Candidate[] = all.map((x, i) => ({ ...x, weight: weights[i], prob: weights[i] / total, removed: 0 }));
  let kept = result;
  order.forEach((name, number) => {
    const keeps = filters[name](kept.map((x) => x.weight), c, kept.map((x) => x.logit));
    kept.forEach((x, i) => { if (!keeps[i]) x.removed = number + 1; });
    kept = kept.filter((_, i) => keeps[i]);
  });
  return result;
}

/// The candidate that is drawn.
export function draw(candidates: Candidate[], u: number): Candidate {
  const kept = candidates.filter((x) => x.removed === 0);
  const target = u * sum(kept.map((x) => x.weight));
  let so_far = 0;
  return kept.find((x) => (so_far += x.weight) > target) ?? kept[kept.length - 1];
}
