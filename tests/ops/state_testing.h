// What the tests of scans of states share: random operands, runs in pieces, and taps that change elements.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "ops/elementwise.h"
#include "ops/op_kind.h"
#include "ops/state_formulas.h"

namespace vitrine::test {

/// An element x of a value becomes factor · x + summand.
struct Affine {
  double factor = 1, summand = 0;
};
using StateChanges = std::function<Affine(StateValue value, std::int64_t t, std::int64_t i)>;

/// Taps that record values and gradients at the sites of states, and change elements.
class StateTaps : public Taps {
 public:
  StateTaps(const StateCase& c, std::set<StateValue> wanted, StateChanges changes = {})
      : wanted_(std::move(wanted)), changes_(std::move(changes)) {
    for (const StateValue value : wanted_) sites_.emplace_back(c.site(value), value);
  }

  bool wants(const SiteId& id) const override { return find(id) != nullptr; }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    const StateValue kind = *find(id);
    Tensor result = value;
    if (changes_ && !pass.shapes_only) result = changed(pass, kind, value);
    keep(kind, result);
    return result;
  }
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override {
    ++steps;
    for (std::int64_t i = first; i < first + count && changes_; ++i) {
      change(pass, *find(id), value.row_size(), i, value.data[i], factor.data == nullptr ? nullptr : &factor.data[i]);
    }
  }
  void visit_steps(Pass&, const SiteId& id, const Tensor& value) override { keep(*find(id), value); }
  bool wants_gradient(const SiteId& id) const override { return wants(id); }
  void visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) override {
    gradients[*find(id)].assign(gradient.data, gradient.data + gradient.count());
  }

  std::map<StateValue, std::vector<float>> values, gradients;  ///< Values of all passes, one after another.
  std::map<StateValue, Shape> shapes;
  int steps = 0;

 private:
  const StateValue* find(const SiteId& id) const {
    for (const auto& [site, value] : sites_) {
      if (id.site == site) return &value;
    }
    return nullptr;
  }
  void change(const Pass& pass, StateValue kind, std::int64_t row_size, std::int64_t i, float& x, float* factor) const {
    const Affine a = changes_(kind, pass.segments[0].position + i / row_size, i % row_size);
    if (a.factor == 1 && a.summand == 0) return;
    x = static_cast<float>(a.factor * static_cast<double>(x) + a.summand);
    if (factor != nullptr) *factor *= static_cast<float>(a.factor);
  }
  Tensor changed(Pass& pass, StateValue kind, const Tensor& value) const {
    const Tensor result = pass.tensor(value.shape);
    std::copy_n(value.data, value.count(), result.data);
    const Tensor factor = pass.filled(value.shape, 1.0f);
    for (std::int64_t i = 0; i < value.count(); ++i) {
      change(pass, kind, value.row_size(), i, result.data[i], &factor.data[i]);
    }
    if (!pass.is_taped()) return result;
    pass.record(OpKind::write, {value}, result, [&pass, value, factor, result] {
      pass.kernels.multiply_add(factor.data, pass.grad(result).data, value.count(), pass.grad(value).data);
    });
    return result;
  }
  void keep(StateValue kind, const Tensor& value) {
    shapes[kind] = value.shape;
    values[kind].insert(values[kind].end(), value.data, value.data + value.count());
  }

  std::set<StateValue> wanted_;
  std::vector<std::pair<Site, StateValue>> sites_;
  StateChanges changes_;
};

inline std::set<StateValue> values_of(const StateCase& c) {
  if (c.delta) return {StateValue::state, StateValue::carry};
  return {StateValue::write, StateValue::state, StateValue::carry};
}

/// Random operands of state_scan, after state_operands.
class StateData {
 public:
  explicit StateData(const StateCase& c) : c_(c) {
    const std::int64_t t = c.tokens(), keys = t * c.shape.groups * c.shape.rows;
    const std::int64_t last = c.of_elements() ? c.shape.lanes * c.shape.rows : c.delta ? t * c.shape.heads : 0;
    std::vector<std::vector<double>> random;
    for (const std::int64_t n : {keys, keys, t * c.shape.heads * c.shape.lanes, t * c.n_decays(), last}) {
      std::vector<double>& numbers = random.emplace_back();
      for (std::int64_t i = 0; i < n; ++i) {
        numbers.push_back(3 * uniform(5, random.size(), static_cast<std::uint64_t>(i)) - 1.5);
      }
    }
    for (const auto& numbers : state_operands(c, random)) {
      floats_.emplace_back(numbers.begin(), numbers.end());
      exact_.emplace_back(floats_.back().begin(), floats_.back().end());
    }
    if (!c.of_elements()) return;
    const auto* const bytes = reinterpret_cast<const std::byte*>(floats_[4].data());
    const std::int64_t rows = c.shape.rows;
    rates_ = {"a", "a", {c.shape.lanes, rows}, {bytes, DType::f32, c.shape.lanes, rows, rows, 1}};
  }
  StateData(const StateData&) = delete;
  StateData& operator=(const StateData&) = delete;

  /// The same numbers as doubles.
  const std::vector<std::vector<double>>& exact() const { return exact_; }

  /// The operands of tokens [first, first + n).
  StateInputs inputs(Pass& p, std::int64_t first, std::int64_t n) const {
    const StateShape& s = c_.shape;
    const auto rows = [&](std::size_t i, const Shape& shape) {
      const Tensor x = p.tensor(shape);
      std::copy_n(floats_[i].begin() + first * x.row_size(), x.count(), x.data);
      return x;
    };
    StateInputs in{rows(0, {n, s.groups, s.rows}), rows(1, {n, s.groups, s.rows}), rows(2, {n, s.heads, s.lanes}),
                   rows(3, {n, c_.n_decays()})};
    if (c_.delta) in.betas = rows(4, {n, s.heads});
    if (c_.of_elements()) in.rates.emplace(rates_, false);
    return in;
  }

 private:
  StateCase c_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<double>> exact_;
  Param rates_;
};

struct StateRunOptions {
  const Kernels* kernels = &default_kernels();
  int threads = 1;
  std::int64_t piece = 0;  ///< Tokens of a pass, with a cache; 0: all, without one.
  Taps* taps = nullptr;
};

/// The output of all passes, then the state in the cache.
struct StateResult {
  std::vector<float> out, state;
};

inline StateResult run_scan(const StateCase& c, const StateData& data, const StateRunOptions& o = {}) {
  StateResult result;
  ThreadPool pool(o.threads);
  KvCache cache({std::vector<StateConfig>{c.shape.cached()}}, c.tokens(), KvTypes());
  const std::int64_t step = o.piece > 0 ? o.piece : c.tokens();
  for (std::int64_t first = 0; first < c.tokens(); first += step) {
    Arena arena;
    Pass pass{{pool, *o.kernels, arena}, {}, {}, o.taps};
    const std::int64_t n = std::min(step, c.tokens() - first);
    if (o.piece > 0) {
      pass.segments = {{0, n, first, &cache}};
    } else {
      for (std::int64_t row = 0; const std::int64_t length : c.lengths) {
        pass.segments.push_back({row, length, 0, nullptr});
        row += length;
      }
    }
    const Tensor y = state_scan(pass, BlockSite{0}, c.shape, c.sites(), data.inputs(pass, first, n), 0);
    result.out.insert(result.out.end(), y.data, y.data + y.count());
    if (o.piece == 0) break;
    cache.advance(n);
    const std::span<const float> state = cache.state<float>(0, 0);
    result.state.assign(state.begin(), state.end());
  }
  return result;
}

inline void expect_close(const std::vector<float>& ours, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(ours.size(), expected.size());
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(ours[i]), expected[i], tolerance * largest) << "element " << i;
  }
}

/// The scan as an op of the tape, from random numbers (state_operands).
inline OpCase state_op(const StateCase& c, Taps* taps = nullptr, StateChanges changes = {}) {
  const StateShape s = c.shape;
  const std::int64_t t = c.tokens();
  OpCase op;
  op.inputs = {{t, s.groups, s.rows}, {t, s.groups, s.rows}, {t, s.heads, s.lanes}, {t, c.n_decays()}};
  if (c.delta) op.inputs.push_back({t, s.heads});
  if (c.of_elements()) op.weight = {s.lanes, s.rows};
  op.run = [c, s](Pass& p, const Operands& o) {
    const float short_key = static_cast<float>(1 / std::sqrt(4.0 * static_cast<double>(s.rows)));
    const Tensor steps = state_steps(p, {}, {}, o.x[3]);
    StateInputs in{o.x[0], c.delta ? scale(p, short_key, o.x[1]) : o.x[1], o.x[2],
                   c.of_elements() ? steps : scale(p, -1.0f, steps)};
    if (c.delta) in.betas = sigmoid(p, o.x[4]);
    if (c.of_elements()) in.rates.emplace(o.linear.weight, true);
    return state_scan(p, BlockSite{0}, c.shape, c.sites(), in, 0);
  };
  op.formula = [c, changes](const All& x) {
    StateChange<Complex> change;
    if (changes) {
      change = [&](StateValue value, std::int64_t row, std::int64_t i, Complex& v) {
        const Affine a = changes(value, row, i);
        v = a.factor * v + a.summand;
      };
    }
    return state_scan_formula<Complex>(c, state_operands<Complex>(c, x), change);
  };
  op.lengths = c.lengths;
  op.taps = taps;
  return op;
}

}  // namespace vitrine::test
