// The scan of a state as a plain formula over any number type (support/reference_ops.h), with changes at its sites; and
// its operands, at random.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/mixers/delta_net/sites.h"
#include "model/mixers/mamba/sites.h"
#include "ops/formulas.h"
#include "ops/state_scan.h"

namespace vitrine::test {

enum class StateValue { write, state, carry };

struct StateCase {
  std::string name;
  StateShape shape;
  bool delta = false;
  std::vector<std::int64_t> lengths{};

  std::int64_t tokens() const {
    std::int64_t n = 0;
    for (const std::int64_t length : lengths) n += length;
    return n;
  }
  bool of_elements() const { return shape.decay == StateDecay::element; }
  /// The numbers of decays of a token.
  std::int64_t n_decays() const {
    return of_elements() ? shape.lanes : shape.heads * (shape.decay == StateDecay::row ? shape.rows : 1);
  }
  /// Delta nets have no write.
  StateSites sites() const {
    if (delta) return {DeltaSite::state, DeltaSite::carry};
    return {MambaSite::state, MambaSite::carry, MambaSite::write, true};
  }
  Site site(StateValue value) const {
    const StateSites all = sites();
    return value == StateValue::write ? *all.write : value == StateValue::state ? all.state : all.carry;
  }
  Site attention_site() const {
    return delta ? Site(DeltaSite::effective_attention) : Site(MambaSite::effective_attention);
  }
  /// The element of a token's value at a site.
  std::int64_t index(std::int64_t h, std::int64_t i, std::int64_t l) const {
    return delta ? (h * shape.rows + i) * shape.lanes + l : (h * shape.lanes + l) * shape.rows + i;
  }
};

inline void PrintTo(const StateCase& c, std::ostream* out) { *out << c.name; }

/// Changes element i of token t's value.
template <class T>
using StateChange = std::function<void(StateValue value, std::int64_t t, std::int64_t i, T& x)>;

/// o `[T, H, P]` of the operands of state_scan: q, k, v, the logarithms of decays (of elements: the steps), β if it is
/// the delta rule, A `[P, K]` if decays are of elements.
template <class T>
std::vector<T> state_scan_formula(const StateCase& c, const std::vector<std::vector<T>>& x,
                                  const StateChange<T>& change = {}) {
  const std::int64_t heads = c.shape.heads, groups = c.shape.groups, rows = c.shape.rows, lanes = c.shape.lanes;
  const StateDecay decay = c.shape.decay;
  const auto at = [](const std::vector<T>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  const auto changed = [&](StateValue value, std::int64_t t, std::int64_t i, T number) {
    if (change) change(value, t, i, number);
    return number;
  };
  std::vector<T> out(static_cast<std::size_t>(c.tokens() * heads * lanes)), state;
  std::int64_t t = 0;
  for (const std::int64_t length : c.lengths) {
    state.assign(static_cast<std::size_t>(heads * rows * lanes), T(0));
    for (const std::int64_t end = t + length; t < end; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t group = (t * groups + h / (heads / groups)) * rows;
        std::vector<T> kept;  // of each row, unless decays are of elements
        for (std::int64_t i = 0; i < rows && decay != StateDecay::element; ++i) {
          const bool is_known = decay == StateDecay::head && i > 0;
          const std::int64_t index = decay == StateDecay::row ? (t * heads + h) * rows + i : t * heads + h;
          kept.push_back(is_known ? kept[0] : std::exp(at(x[3], index)));
        }
        for (std::int64_t l = 0; l < lanes; ++l) {
          const auto element = [&](std::int64_t i) -> T& {
            return state[static_cast<std::size_t>((h * rows + i) * lanes + l)];
          };
          T read(0), sum(0);
          for (std::int64_t i = 0; i < rows; ++i) {
            element(i) *= kept.empty() ? std::exp(at(x[3], t * lanes + l) * at(x[4], l * rows + i)) : at(kept, i);
            read += element(i) * at(x[1], group + i);
          }
          T written = at(x[2], (t * heads + h) * lanes + l);
          if (c.delta) written = at(x[4], t * heads + h) * (written - read);
          for (std::int64_t i = 0; i < rows; ++i) {
            const std::int64_t index = c.index(h, i, l);
            const T product = written * at(x[1], group + i);
            element(i) += c.delta ? product : changed(StateValue::write, t, index, product);
            sum += changed(StateValue::state, t, index, element(i)) * at(x[0], group + i);
            element(i) = changed(StateValue::carry, t, index, element(i));
          }
          out[static_cast<std::size_t>((t * heads + h) * lanes + l)] = sum;
        }
      }
    }
  }
  return out;
}

/// What the random numbers x become, so that states neither grow nor vanish: −softplus, sigmoid, and of elements
/// softplus and −exp; keys of the delta rule are shorter than 1.
template <class T>
std::vector<std::vector<T>> state_operands(const StateCase& c, std::vector<std::vector<T>> x) {
  const auto softplus = [](const T& v) { return std::log(T(1) + std::exp(v)); };
  for (T& v : x[1]) v = c.delta ? v / std::sqrt(4.0 * static_cast<double>(c.shape.rows)) : v;
  for (T& v : x[3]) v = c.of_elements() ? softplus(v) : -softplus(v);
  if (c.delta) {
    for (T& v : x[4]) v = T(1) / (T(1) + std::exp(-v));
  }
  if (c.of_elements()) {
    for (T& v : x[4]) v = -std::exp(v);
  }
  return x;
}

/// All decays, with and without the delta rule, groups, and odd sizes.
inline std::vector<StateCase> state_cases(std::vector<std::int64_t> lengths, std::int64_t rows, std::int64_t lanes) {
  using enum StateDecay;
  return {{"delta", {5, 1, rows, lanes, head}, true, lengths},
          {"delta_groups", {6, 3, lanes, rows, head}, true, lengths},
          {"kda", {3, 3, rows, lanes, row}, true, lengths},
          {"mamba2", {5, 1, rows, lanes, head}, false, lengths},
          {"mamba2_groups", {6, 3, lanes, rows, head}, false, lengths},
          {"rows", {2, 1, rows, lanes, row}, false, lengths},
          {"mamba", {1, 1, rows, 5 * lanes, element}, false, lengths}};
}

}  // namespace vitrine::test
