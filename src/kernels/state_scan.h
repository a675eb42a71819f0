// The scan of a state over the tokens of one head: its operands, and the kernels that compute it.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace vitrine {

/// What a state is multiplied by from one token to the next: a number of the head, a number of each row, or, of each
/// element, exp(step of its lane · its rate).
enum class StateDecay : std::uint8_t { head, row, element };

/// The vectors of consecutive tokens, `stride` floats apart.
template <class T>
struct VectorsOf {
  T* data = nullptr;
  std::int64_t stride = 0;

  T* of(std::int64_t token) const { return data + token * stride; }
  /// Those of the tokens from `token` on, without their first elements.
  VectorsOf from(std::int64_t token, std::int64_t element = 0) const {
    return {data == nullptr ? nullptr : of(token) + element, stride};
  }
};
using TokenVectors = VectorsOf<const float>;
using TokenGradients = VectorsOf<float>;

/// The operands of some lanes of a head. With S `[rows, lanes]`, for each token in turn:
///
///   S ← decay · S
///   w = values, or, with betas, betas · (values − Sᵀ keys): the delta rule
///   S ← S + keys wᵀ
///   out = Sᵀ queries
struct StateScan {
  std::int64_t tokens = 0, rows = 0;
  StateDecay decay = StateDecay::head;
  TokenVectors keys{}, queries{};  ///< `[rows]`
  TokenVectors decays{};           ///< head: `[1]`; row: `[rows]`; element: the steps `[lanes]`.
  TokenVectors decayed_keys{};     ///< row, with betas: decays · keys.
  const float* rates = nullptr;    ///< element: `[rows, lanes]`, rates_stride apart.
  std::int64_t rates_stride = 0;
  TokenVectors values{};  ///< `[lanes]`
  TokenVectors betas{};   ///< `[1]`; no data: without the delta rule.

  bool is_delta() const { return betas.data != nullptr; }
  StateScan from(std::int64_t token, std::int64_t n) const {
    StateScan s = *this;
    for (TokenVectors* const v : {&s.keys, &s.queries, &s.decays, &s.decayed_keys, &s.values, &s.betas}) {
      *v = v->from(token);
    }
    s.tokens = n;
    return s;
  }
};

/// The gradients that a scan adds to. Sums over lanes are those of 16 lanes, as at the end of a sum in 16-lane order.
/// `decays` are the derivatives by what the state is multiplied by (element: by the steps).
struct StateScanGradients {
  TokenVectors out{};  ///< Of the output `[lanes]`, which is read.
  TokenGradients keys{}, queries{}, decays{}, values{}, betas{};
  float* rates = nullptr;  ///< element: `[rows, kBackwardLanes]`
};

/// The kernels of states. Row i of a state belongs to partial sum i mod 4 of a sum over rows, each from +0 in ascending
/// order with one fused multiply-add per product; at the end (0 + 1) + (2 + 3). With a decay of the head, Sᵀ keys is
/// the decay times that of the state before it. An element becomes fma(key, w, decay · S).
struct StateKernels {
  static constexpr int kLanes = 32;          ///< The most lanes of `scan`, and the distance of a state's rows.
  static constexpr int kBackwardLanes = 16;  ///< The same of `backward`.

  /// out: `[tokens, lanes]`, out_stride apart; `state`: S before the first token, then after the last one. The elements
  /// of unused lanes are 0.
  void (*scan)(const StateScan& s, int lanes, float* state, float* out, std::int64_t out_stride);
  /// `states`: scratch for (tokens + 1) states and 2 · tokens vectors of kBackwardLanes; its first state is S before
  /// the first token. dstate: the gradient of S after the last token, then of S before the first.
  void (*backward)(const StateScan& s, int lanes, float* states, float* dstate, const StateScanGradients& d);

  /// The floats that `backward` needs for `tokens` of a state of `rows`, with dstate.
  static constexpr std::int64_t backward_floats(std::int64_t tokens, std::int64_t rows) {
    return ((tokens + 2) * rows + 2 * tokens) * kBackwardLanes;
  }
};

}  // namespace vitrine
