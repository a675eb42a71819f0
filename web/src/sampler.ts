// The steps of src/generate/sampler.cpp, in the same order and in double precision, and its random numbers.

export interface Sampling {
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  repeat_penalty: number;
}

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
  prob: number;
  /// 0 kept, 1 removed by top-k, 2 by top-p, 3 by min-p
  removed: 0 | 1 | 2 | 3;
}

export function funnel(logits: { id: number; logit: number }[], history: Set<number>, c: Sampling): Candidate[] {
  const all = logits.map(({ id, logit }) => ({ id, logit: history.has(id) && c.repeat_penalty !== 1 ? (logit > 0 ? logit / c.repeat_penalty : logit * c.repeat_penalty) : logit }));
  all.sort((a, b) => b.logit - a.logit || a.id - b.id);
  let weights = all.map((x) => Math.exp((x.logit - all[0].logit) / c.temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  const result: Candidate[] = all.map((x, i) => ({ ...x, prob: weights[i] / total, removed: 0 }));
  const remove = (by: 1 | 2 | 3) => {
    for (let i = weights.length; i < result.length && result[i].removed === 0; ++i) result[i].removed = by;
  };
  if (c.top_k > 0) weights = weights.slice(0, c.top_k);
  remove(1);
  if (c.top_p < 1) {
    const sum = weights.reduce((a, b) => a + b, 0);
    let kept = 0, so_far = 0;
    while (kept < weights.length && so_far < c.top_p * sum) so_far += weights[kept++];
    weights.length = kept;
  }
  remove(2);
  const below = weights.findIndex((w) => w < c.min_p);
  if (below >= 0) weights.length = below;
  remove(3);
  return result;
}

/// The index of the candidate that is drawn.
export function draw(candidates: Candidate[], temperature: number, u: number): number {
  const kept = candidates.filter((c) => c.removed === 0);
  const weights = kept.map((c) => Math.exp((c.logit - kept[0].logit) / temperature));
  const target = u * weights.reduce((a, b) => a + b, 0);
  let sum = 0;
  for (let i = 0; i < weights.length; ++i) {
    sum += weights[i];
    if (sum > target) return i;
  }
  return weights.length - 1;
}
