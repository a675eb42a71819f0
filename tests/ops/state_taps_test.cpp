// The sites of states: bits when taps change nothing, what a change reaches, gradients, and effective attention.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/effective_attention.h"
#include "ops/state_testing.h"
#include "pass/segment_taps.h"

namespace vitrine::test {
namespace {

constexpr std::int64_t kWritten = 4;  // the token that is changed

StateChanges change_of(StateValue value, Affine affine) {
  return [=](StateValue at, std::int64_t t, std::int64_t i) {
    return at == value && t == kWritten && i % 3 != 1 ? affine : Affine{};
  };
}

TEST(StateTaps, ChangeNoBitsIfTheyChangeNothing) {
  for (const StateCase& c : state_cases({67, 4}, 5, 35)) {
    SCOPED_TRACE(c.name);
    const OpRun untapped = run_op(state_op(c));
    const auto expect_same = [&](std::set<StateValue> wanted, int threads) {
      StateTaps taps(c, std::move(wanted));
      const OpRun tapped = run_op(state_op(c, &taps), threads);
      EXPECT_TRUE(same_bits(tapped.result, untapped.result));
      for (std::size_t i = 0; i < tapped.gradients.size(); ++i) {
        EXPECT_TRUE(same_bits(tapped.gradients[i], untapped.gradients[i])) << i;
      }
    };
    for (const StateValue value : values_of(c)) expect_same({value}, 1);
    expect_same(values_of(c), 3);

    StateCase one = c;  // in passes with a cache
    one.lengths = {70};
    const StateData data(one);
    const StateResult plain = run_scan(one, data, {.piece = 33});
    StateTaps taps(one, values_of(one));
    const StateResult seen = run_scan(one, data, {.threads = 3, .piece = 33, .taps = &taps});
    EXPECT_TRUE(same_bits(seen.out, plain.out));
    EXPECT_TRUE(same_bits(seen.state, plain.state));
    EXPECT_EQ(taps.steps, 70);
  }
}

TEST(StateTaps, SeeTheStates) {
  for (const StateCase& c : state_cases({3, 6}, 4, 3)) {
    SCOPED_TRACE(c.name);
    const StateData data(c);
    StateTaps taps(c, values_of(c));
    run_scan(c, data, {.taps = &taps});
    std::map<StateValue, std::vector<double>> expected;
    for (const StateValue value : values_of(c)) {
      const std::int64_t size = c.shape.heads * c.shape.rows * c.shape.lanes;
      expected[value].resize(static_cast<std::size_t>(c.tokens() * size));
      state_scan_formula<double>(c, data.exact(), [&](StateValue at, std::int64_t t, std::int64_t i, double& x) {
        if (at == value) expected[value][static_cast<std::size_t>(t * size + i)] = x;
      });
      expect_close(taps.values[value], expected[value], 1e-6);
      const std::int64_t heads = c.shape.heads, rows = c.shape.rows, lanes = c.shape.lanes;
      const Shape shape = c.of_elements() ? Shape{9, lanes, rows}
                          : c.delta       ? Shape{9, heads, rows, lanes}
                                          : Shape{9, heads, lanes, rows};
      EXPECT_EQ(taps.shapes[value], shape);
    }
  }
}

/// Which outputs differ, by token.
std::vector<bool> differing_rows(const std::vector<float>& a, const std::vector<float>& b, std::int64_t tokens) {
  std::vector<bool> differ;
  const auto size = static_cast<std::ptrdiff_t>(a.size()) / tokens;
  for (std::ptrdiff_t t = 0; t < tokens; ++t) {
    const auto row = [&](const std::vector<float>& x) {
      return std::vector<float>(x.begin() + t * size, x.begin() + (t + 1) * size);
    };
    differ.push_back(!same_bits(row(a), row(b)));
  }
  return differ;
}

TEST(StateTaps, AChangeReachesWhatItShould) {
  for (const StateCase& c : state_cases({8}, 5, 35)) {
    const StateData data(c);
    const StateResult plain = run_scan(c, data);
    for (const StateValue value : values_of(c)) {
      SCOPED_TRACE(c.name + " " + std::to_string(static_cast<int>(value)));
      const StateChanges changes = change_of(value, {0.5, 2});
      StateTaps taps(c, {value}, changes);
      const StateResult changed = run_scan(c, data, {.taps = &taps});
      std::vector<bool> expected(8, false);
      for (std::int64_t t = 0; t < 8; ++t) {
        expected[static_cast<std::size_t>(t)] = value == StateValue::state   ? t == kWritten
                                                : value == StateValue::carry ? t > kWritten
                                                                             : t >= kWritten;
      }
      EXPECT_EQ(differing_rows(plain.out, changed.out, 8), expected);
      const auto formula =
          state_scan_formula<double>(c, data.exact(), [&](StateValue at, std::int64_t t, std::int64_t i, double& x) {
            const Affine a = changes(at, t, i);
            x = a.factor * x + a.summand;
          });
      expect_close(changed.out, formula, 2e-6);
      for (const std::int64_t piece : {1, 3, 5}) {  // the same in pieces
        StateTaps again(c, {value}, changes);
        const StateResult pieces = run_scan(c, data, {.threads = 2, .piece = piece, .taps = &again});
        EXPECT_TRUE(same_bits(pieces.out, changed.out)) << piece;
        EXPECT_TRUE(same_bits(again.values[value], taps.values[value])) << piece;
      }
    }
  }
}

TEST(StateTaps, GradientsGoThroughChanges) {
  for (const StateCase& c : state_cases({6, 2}, 3, 2)) {
    for (const StateValue value : values_of(c)) {
      for (const Affine affine : {Affine{0, 1}, Affine{1, 1.5}, Affine{-0.5, 0}}) {
        SCOPED_TRACE(c.name + " " + std::to_string(static_cast<int>(value)));
        const StateChanges changes = change_of(value, affine);
        StateTaps taps(c, values_of(c), changes);
        check_op(state_op(c, &taps, changes), 2e-5);
      }
    }
    SCOPED_TRACE(c.name);
    const StateChanges all = [](StateValue, std::int64_t t, std::int64_t i) {
      return (t + i) % 4 == 0 ? Affine{0.75, 0.25} : Affine{};
    };
    StateTaps taps(c, values_of(c), all);
    check_op(state_op(c, &taps, all), 2e-5);
  }
}

/// The gradient of a tap's result, by complex steps of the formula.
std::vector<double> gradient_at(const StateCase& c, const OpRun& run, StateValue value, const StateChanges& changes) {
  constexpr double kStep = 1e-50;
  All x;
  for (const auto& operand : run.operands) x.emplace_back(operand.begin(), operand.end());
  const All operands = state_operands<Complex>(c, x);
  const std::int64_t size = c.shape.heads * c.shape.rows * c.shape.lanes;
  std::vector<double> gradient;
  for (std::int64_t element = 0; element < c.tokens() * size; ++element) {
    const Vector y =
        state_scan_formula<Complex>(c, operands, [&](StateValue at, std::int64_t t, std::int64_t i, Complex& v) {
          const Affine a = changes(at, t, i);
          v = a.factor * v + a.summand;
          if (at == value && t * size + i == element) v += Complex(0, kStep);
        });
    double sum = 0;
    for (std::size_t o = 0; o < y.size(); ++o) sum += static_cast<double>(run.result_gradient[o]) * y[o].imag() / kStep;
    gradient.push_back(sum);
  }
  return gradient;
}

TEST(StateTaps, GradientsAtTheSites) {
  for (const StateCase& c : state_cases({5, 1}, 3, 2)) {
    const StateChanges none = [](StateValue, std::int64_t, std::int64_t) { return Affine{}; };
    for (const bool is_changed : {false, true}) {
      const StateChanges changes = is_changed ? change_of(StateValue::carry, {0.5, 1}) : none;
      StateTaps read(c, values_of(c)), written(c, values_of(c), changes);
      StateTaps& taps = is_changed ? written : read;
      const OpRun run = run_op(state_op(c, &taps));
      for (const StateValue value : values_of(c)) {
        SCOPED_TRACE(c.name + " " + std::to_string(static_cast<int>(value)));
        expect_close(taps.gradients[value], gradient_at(c, run, value, changes), 2e-5);
      }
    }
  }
}

/// Records M of each segment.
class MapTaps : public Taps {
 public:
  MapTaps(Site site, bool writes) : site_(site), writes_(writes) {}
  bool wants(const SiteId& id) const override { return id.site == site_; }
  Tensor visit(Pass& pass, const SiteId&, const Tensor& value) override {
    maps.emplace_back(value.data, value.data + value.count());
    shapes.push_back(value.shape);
    return writes_ ? pass.filled(value.shape, 1.0f) : value;
  }

  std::vector<std::vector<float>> maps;
  std::vector<Shape> shapes;

 private:
  Site site_;
  bool writes_;
};

TEST(EffectiveAttention, OfTheValuesIsTheOutput) {
  for (const StateCase& c : state_cases({35, 3}, 7, 5)) {
    SCOPED_TRACE(c.name);
    const StateData data(c);
    const std::vector<float> out = run_scan(c, data).out;
    ThreadPool pool(2);
    Arena arena;
    MapTaps taps(c.attention_site(), false);
    Pass pass{{pool, default_kernels(), arena}, {{0, 35, 0, nullptr}, {35, 3, 0, nullptr}}, {}, &taps};
    const StateInputs in = data.inputs(pass, 0, 38);
    show_effective_attention(pass, BlockSite{0}, c.attention_site(), c.shape, in);
    ASSERT_EQ(taps.maps.size(), 2U);
    const std::int64_t heads = c.of_elements() ? c.shape.lanes : c.shape.heads;
    std::vector<double> product;
    for (std::int64_t first = 0; const std::vector<float>& m : taps.maps) {
      const std::int64_t n = first == 0 ? 35 : 3;
      EXPECT_EQ(taps.shapes[first == 0 ? 0 : 1], Shape({n, heads, n}));
      const std::int64_t width = c.shape.lanes * c.shape.heads / heads;
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t o = 0; o < heads * width; ++o) {
          double sum = 0;
          for (std::int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<std::size_t>((i * heads + o / width) * n + j);
            EXPECT_TRUE(j <= i || m[at] == 0.0f);
            sum += static_cast<double>(m[at]) * static_cast<double>(in.values.row(first + j)[o]);
          }
          product.push_back(sum);
        }
      }
      first += n;
    }
    expect_close(out, product, 2e-6);
  }
}

TEST(EffectiveAttention, CannotBeWritten) {
  const StateCase c = state_cases({5}, 3, 2)[0];
  const StateData data(c);
  ThreadPool pool(1);
  Arena arena;
  MapTaps taps(c.attention_site(), true);
  Pass pass{{pool, default_kernels(), arena}, {{0, 5, 0, nullptr}}, {}, &taps};
  const StateInputs in = data.inputs(pass, 0, 5);
  EXPECT_THROW(show_effective_attention(pass, BlockSite{0}, c.attention_site(), c.shape, in), BadInput);
}

/// Records the rows of a sequence, and multiplies one position's by a factor.
class RowTaps : public SequenceTaps {
 public:
  RowTaps(Site site, std::int64_t position, float factor) : site_(site), position_(position), factor_(factor) {}
  bool wants(const SiteId& id) const override { return id.site == site_; }
  Tensor visit(Pass& pass, const SiteId&, const Tensor& value, std::span<const std::int64_t> positions) override {
    const Tensor result = pass.tensor(value.shape);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      seen.push_back(positions[i]);
      const auto row = static_cast<std::int64_t>(i);
      const float factor = positions[i] == position_ ? factor_ : 1.0f;
      pass.kernels.scale(value.row(row), value.row_size(), factor, result.row(row));
    }
    return result;
  }

  std::vector<std::int64_t> seen;

 private:
  Site site_;
  std::int64_t position_;
  float factor_;
};

/// Two sequences in one pass: a tap of one changes nothing in the other, and what it does alone.
TEST(StateTaps, OfASequenceChangeItsOwnRows) {
  for (const StateCase& c : state_cases({3, 6}, 4, 19)) {
    for (const StateValue value : values_of(c)) {
      SCOPED_TRACE(c.name + " " + std::to_string(static_cast<int>(value)));
      const StateData data(c);
      const std::vector<float> plain = run_scan(c, data).out;
      RowTaps own(c.site(value), 2, 0.0f);
      SegmentTaps taps({nullptr, &own});
      const std::vector<float> changed = run_scan(c, data, {.taps = &taps}).out;
      EXPECT_EQ(own.seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
      StateTaps reference(c, {value}, [&](StateValue at, std::int64_t t, std::int64_t) {
        return at == value && t == 5 ? Affine{0, 0} : Affine{};
      });
      EXPECT_TRUE(same_bits(changed, run_scan(c, data, {.taps = &reference}).out));
      EXPECT_FALSE(same_bits(changed, plain));
      EXPECT_EQ(differing_rows(plain, changed, 9)[2], false);
    }
  }
}

}  // namespace
}  // namespace vitrine::test
