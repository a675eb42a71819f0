// The scan of a state over tokens, forward and backward (state_scan.h), on vectors of lanes.
#pragma once

#include "kernels/math-inl.h"
#include "kernels/rows-inl.h"
#include "kernels/state_scan.h"

namespace vitrine {
namespace {

constexpr int kPartialSums = 4;

/// V vectors of 16 lanes.
template <int V>
struct Lanes {
  Vec v[V];
};

template <int V>
inline Lanes<V> lanes_of(float value) {
  Lanes<V> x;
  for (int j = 0; j < V; ++j) x.v[j] = broadcast(value);
  return x;
}
template <int V>
inline Lanes<V> load_lanes(const float* p) {
  Lanes<V> x;
  for (int j = 0; j < V; ++j) x.v[j] = load_f32(p + j * kLanes);
  return x;
}
template <int V>
inline Lanes<V> load_lanes(const float* p, int count) {
  Lanes<V> x;
  for (int j = 0; j < V; ++j) {
    const int n = count - j * kLanes;
    x.v[j] = n >= kLanes ? load_f32(p + j * kLanes) : keep_first(load_f32_first(p + j * kLanes, n), n);
  }
  return x;
}
template <int V>
inline void store_lanes(const Lanes<V>& x, float* p) {
  for (int j = 0; j < V; ++j) store_f32(x.v[j], p + j * kLanes);
}
template <int V>
inline void store_lanes(const Lanes<V>& x, float* p, int count) {
  for (int j = 0; j < V; ++j) {
    const int n = count - j * kLanes;
    n >= kLanes ? store_f32(x.v[j], p + j * kLanes) : store_f32_first(x.v[j], p + j * kLanes, n);
  }
}
/// c + a · b
template <int V>
inline Lanes<V> fma(const Lanes<V>& a, float b, const Lanes<V>& c) {
  const Vec factor = broadcast(b);
  Lanes<V> y;
  for (int j = 0; j < V; ++j) y.v[j] = fma(a.v[j], factor, c.v[j]);
  return y;
}
template <int V, class Function>
inline Lanes<V> map(const Lanes<V>& a, const Lanes<V>& b, Function function) {
  Lanes<V> y;
  for (int j = 0; j < V; ++j) y.v[j] = function(a.v[j], b.v[j]);
  return y;
}

template <int V>
struct PartialSums {
  Lanes<V> part[kPartialSums];

  PartialSums() {
    for (Lanes<V>& p : part) p = lanes_of<V>(0.0f);
  }
  Lanes<V> total() const {
    const auto plus = [](Vec a, Vec b) { return a + b; };
    return map(map(part[0], part[1], plus), map(part[2], part[3], plus), plus);
  }
};

/// What row i of a state is multiplied by.
template <int V, StateDecay kDecay>
inline Lanes<V> decay_of(const StateScan& s, std::int64_t t, std::int64_t i, const Lanes<V>& steps, int lanes) {
  if constexpr (kDecay == StateDecay::head) return lanes_of<V>(*s.decays.of(t));
  if constexpr (kDecay == StateDecay::row) return lanes_of<V>(s.decays.of(t)[i]);
  const Lanes<V> rates = load_lanes<V>(s.rates + i * s.rates_stride, lanes);
  return map(steps, rates, [](Vec a, Vec b) { return exp(a * b); });
}

/// each(i, i mod 4) for all rows, four at a time.
template <class Each>
inline void each_row(std::int64_t rows, Each each) {
  std::int64_t i = 0;
  for (; i + kPartialSums <= rows; i += kPartialSums) {
    each(i, 0);
    each(i + 1, 1);
    each(i + 2, 2);
    each(i + 3, 3);
  }
  for (int part = 0; i < rows; ++i, ++part) each(i, part);
}

/// The keys that Sᵀ keys of token t sums, before the decay of a head.
template <StateDecay kDecay>
inline const float* read_keys(const StateScan& s, std::int64_t t) {
  return kDecay == StateDecay::row ? s.decayed_keys.of(t) : s.keys.of(t);
}

/// values − Sᵀ keys, from the sum over the state before token t.
template <int V, StateDecay kDecay>
inline Lanes<V> error_of(const StateScan& s, std::int64_t t, const Lanes<V>& sum, int lanes) {
  const Lanes<V> values = load_lanes<V>(s.values.of(t), lanes);
  if constexpr (kDecay == StateDecay::head) {
    const Vec decay = broadcast(*s.decays.of(t));
    return map(values, sum, [decay](Vec v, Vec u) { return v - decay * u; });
  } else {
    return map(values, sum, [](Vec v, Vec u) { return v - u; });
  }
}

template <int V, StateDecay kDecay, bool kDelta>
void scan_tokens(const StateScan& s, int lanes, float* state, float* out, std::int64_t out_stride) {
  constexpr std::int64_t kRow = StateKernels::kLanes;
  Lanes<V> read = lanes_of<V>(0.0f);
  if constexpr (kDelta) {
    PartialSums<V> sums;
    const float* const key = read_keys<kDecay>(s, 0);
    each_row(s.rows, [&](std::int64_t i, int part) {
      sums.part[part] = fma(load_lanes<V>(state + i * kRow), key[i], sums.part[part]);
    });
    read = sums.total();
  }
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    Lanes<V> written;
    if constexpr (kDelta) {
      const Vec beta = broadcast(*s.betas.of(t));
      written = error_of<V, kDecay>(s, t, read, lanes);
      for (int j = 0; j < V; ++j) written.v[j] = beta * written.v[j];
    } else {
      written = load_lanes<V>(s.values.of(t), lanes);
    }
    const Lanes<V> steps =
        kDecay == StateDecay::element ? load_lanes<V>(s.decays.of(t), lanes) : lanes_of<V>(*s.decays.of(t));
    const float *const key = s.keys.of(t), *const query = s.queries.of(t);
    const float* const next = read_keys<kDecay>(s, t + 1 < s.tokens ? t + 1 : t);
    PartialSums<V> outputs, reads;
    each_row(s.rows, [&](std::int64_t i, int part) {
      const Lanes<V> decay = kDecay == StateDecay::head ? steps : decay_of<V, kDecay>(s, t, i, steps, lanes);
      Lanes<V> x = map(decay, load_lanes<V>(state + i * kRow), [](Vec a, Vec b) { return a * b; });
      x = fma(written, key[i], x);
      store_lanes(x, state + i * kRow);
      outputs.part[part] = fma(x, query[i], outputs.part[part]);
      if constexpr (kDelta) reads.part[part] = fma(x, next[i], reads.part[part]);
    });
    store_lanes(outputs.total(), out + t * out_stride, lanes);
    if constexpr (kDelta) read = reads.total();
  }
}

template <int V>
void scan_lanes(const StateScan& s, int lanes, float* state, float* out, std::int64_t stride) {
  const bool delta = s.is_delta();
  switch (s.decay) {
    case StateDecay::head:
      return delta ? scan_tokens<V, StateDecay::head, true>(s, lanes, state, out, stride)
                   : scan_tokens<V, StateDecay::head, false>(s, lanes, state, out, stride);
    case StateDecay::row:
      return delta ? scan_tokens<V, StateDecay::row, true>(s, lanes, state, out, stride)
                   : scan_tokens<V, StateDecay::row, false>(s, lanes, state, out, stride);
    case StateDecay::element:
      return scan_tokens<V, StateDecay::element, false>(s, lanes, state, out, stride);
  }
}

void scan_state(const StateScan& s, int lanes, float* state, float* out, std::int64_t out_stride) {
  if (s.tokens == 0) return;
  lanes > kLanes ? scan_lanes<2>(s, lanes, state, out, out_stride) : scan_lanes<1>(s, lanes, state, out, out_stride);
}

/// The states of all tokens again, what each writes, and, with the delta rule, values − Sᵀ keys.
template <StateDecay kDecay, bool kDelta>
void states_again(const StateScan& s, int lanes, float* states, float* written, float* errors) {
  const std::int64_t size = s.rows * kLanes;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const float* const before = states + t * size;
    float* const after = states + (t + 1) * size;
    Lanes<1> w = load_lanes<1>(s.values.of(t), lanes);
    if constexpr (kDelta) {
      PartialSums<1> sums;
      const float* const key = read_keys<kDecay>(s, t);
      each_row(s.rows, [&](std::int64_t i, int part) {
        sums.part[part] = fma(load_lanes<1>(before + i * kLanes), key[i], sums.part[part]);
      });
      const Lanes<1> error = error_of<1, kDecay>(s, t, sums.total(), lanes);
      store_lanes(error, errors + t * kLanes);
      w.v[0] = broadcast(*s.betas.of(t)) * error.v[0];
    }
    store_lanes(w, written + t * kLanes);
    const Lanes<1> steps = load_lanes<1>(s.decays.of(t), kDecay == StateDecay::element ? lanes : 1);
    const float* const key = s.keys.of(t);
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const Lanes<1> decay = decay_of<1, kDecay>(s, t, i, steps, lanes);
      const Lanes<1> x = {{decay.v[0] * load_f32(before + i * kLanes)}};
      store_lanes(fma(w, key[i], x), after + i * kLanes);
    }
  }
}

/// The gradients that token t adds, and dstate of the state before it from that after it.
template <StateDecay kDecay, bool kDelta>
void token_backward(const StateScan& s, std::int64_t t, int lanes, const float* states, const float* written,
                    const float* errors, float* dstate, const StateScanGradients& d) {
  const float *const before = states + t * s.rows * kLanes, *const after = before + s.rows * kLanes;
  const float *const key = s.keys.of(t), *const query = s.queries.of(t);
  const Lanes<1> dout = load_lanes<1>(d.out.of(t), lanes);
  PartialSums<1> sums;
  each_row(s.rows, [&](std::int64_t i, int part) {
    const Lanes<1> dx = fma(dout, query[i], load_lanes<1>(dstate + i * kLanes));
    store_lanes(dx, dstate + i * kLanes);
    d.queries.of(t)[i] += sum_lanes(load_f32(after + i * kLanes) * dout.v[0]);
    sums.part[part] = fma(dx, key[i], sums.part[part]);
  });
  Vec dvalues = sums.total().v[0], dread = zero();
  const Vec w = load_f32(written + t * kLanes);
  if constexpr (kDelta) {
    *d.betas.of(t) += sum_lanes(dvalues * load_f32(errors + t * kLanes));
    dvalues = broadcast(*s.betas.of(t)) * dvalues;
    dread = zero() - dvalues;
  }
  store_lanes<1>({{load_lanes<1>(d.values.of(t), lanes).v[0] + dvalues}}, d.values.of(t), lanes);
  const Lanes<1> steps = load_lanes<1>(s.decays.of(t), kDecay == StateDecay::element ? lanes : 1);
  PartialSums<1> ddecay;
  each_row(s.rows, [&](std::int64_t i, int part) {
    const Vec x = load_f32(before + i * kLanes), decay = decay_of<1, kDecay>(s, t, i, steps, lanes).v[0];
    Vec dx = load_f32(dstate + i * kLanes);
    Vec dkey = dx * w;
    if constexpr (kDelta) {
      dkey = fma(decay * x, dread, dkey);
      dx = fma(broadcast(key[i]), dread, dx);
    }
    d.keys.of(t)[i] += sum_lanes(dkey);
    Vec& sum = ddecay.part[part].v[0];
    if constexpr (kDecay == StateDecay::head) sum = fma(dx, x, sum);
    if constexpr (kDecay == StateDecay::row) d.decays.of(t)[i] += sum_lanes(dx * x);
    const Vec result = dx * decay;
    if constexpr (kDecay == StateDecay::element) {
      const Vec dexponent = result * x;
      sum = fma(dexponent, load_lanes<1>(s.rates + i * s.rates_stride, lanes).v[0], sum);
      float* const drates = d.rates + i * kLanes;
      store_f32(fma(dexponent, steps.v[0], load_f32(drates)), drates);
    }
    store_f32(result, dstate + i * kLanes);
  });
  if constexpr (kDecay == StateDecay::head) *d.decays.of(t) += sum_lanes(ddecay.total().v[0]);
  if constexpr (kDecay == StateDecay::element) {
    const Vec sum = load_lanes<1>(d.decays.of(t), lanes).v[0] + ddecay.total().v[0];
    store_lanes<1>({{sum}}, d.decays.of(t), lanes);
  }
}

template <StateDecay kDecay, bool kDelta>
void scan_backward_of(const StateScan& s, int lanes, float* states, float* dstate, const StateScanGradients& d) {
  float* const written = states + (s.tokens + 1) * s.rows * kLanes;
  float* const errors = written + s.tokens * kLanes;
  states_again<kDecay, kDelta>(s, lanes, states, written, errors);
  for (std::int64_t t = s.tokens; t-- > 0;) {
    token_backward<kDecay, kDelta>(s, t, lanes, states, written, errors, dstate, d);
  }
}

void scan_state_backward(const StateScan& s, int lanes, float* states, float* dstate, const StateScanGradients& d) {
  static_assert(StateKernels::kBackwardLanes == kLanes);
  const bool delta = s.is_delta();
  switch (s.decay) {
    case StateDecay::head:
      return delta ? scan_backward_of<StateDecay::head, true>(s, lanes, states, dstate, d)
                   : scan_backward_of<StateDecay::head, false>(s, lanes, states, dstate, d);
    case StateDecay::row:
      return delta ? scan_backward_of<StateDecay::row, true>(s, lanes, states, dstate, d)
                   : scan_backward_of<StateDecay::row, false>(s, lanes, states, dstate, d);
    case StateDecay::element:
      return scan_backward_of<StateDecay::element, false>(s, lanes, states, dstate, d);
  }
}

}  // namespace
}  // namespace vitrine
