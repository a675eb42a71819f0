// Attention: gradients against the formula, by complex steps, with and without taps.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ops/attention_sites.h"
#include "ops/elementwise.h"
#include "support/attend_own.h"
#include "support/op_check.h"

namespace vitrine::test {
namespace {

/// Taps the strips and their gradients.
class StripTaps : public Taps {
 public:
  explicit StripTaps(Site site) : site_(site) {}
  bool wants(const SiteId& id) const override { return id.site == site_; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
  bool wants_gradient(const SiteId& id) const override { return wants(id); }
  void visit_gradient(Pass&, const SiteId&, const Tensor&) override { ++gradients; }

  int gradients = 0;

 private:
  Site site_;
};

struct Attention {
  std::string name;
  AttendConfig config;
  std::vector<std::int64_t> lengths;
  Mask mask{};
};

void PrintTo(const Attention& attention, std::ostream* out) { *out << attention.name; }

class AttendGradients : public testing::TestWithParam<Attention> {
 protected:
  OpCase op(Taps* taps = nullptr) const {
    const AttendConfig& c = GetParam().config;
    const Mask mask = GetParam().mask;
    std::int64_t rows = 0;
    std::vector<std::size_t> lengths;
    for (const std::int64_t length : GetParam().lengths) {
      rows += length;
      lengths.push_back(static_cast<std::size_t>(length));
    }
    const Shape kv{rows, c.n_kv_heads, c.head_dim};
    OpCase op{{{rows, c.n_heads, c.head_dim}, kv, kv},
              c.sink ? Shape{c.n_heads} : Shape{},
              {},
              [&c, mask](Pass& p, const Operands& o) {
                const std::vector<KeySource> sources = key_sources(p, BlockSite{0}, o.x[1], o.x[2]);
                return attend(p, BlockSite{0}, c, mask, o.x[0], o.x[1], o.x[2], sources, {}, &o.norm.weight);
              },
              [&c, mask, lengths](const std::vector<std::vector<reference::Complex>>& x) {
                return reference::attend(c, mask, lengths, x[0], x[1], x[2],
                                         c.sink ? x[3] : std::vector<reference::Complex>());
              }};
    op.lengths = GetParam().lengths;
    op.taps = taps;
    return op;
  }
};

TEST_P(AttendGradients, MatchTheFormula) { check_op(op()); }

TEST_P(AttendGradients, MatchTheFormulaWhenTapped) {
  StripTaps taps(AttentionSite::pattern);
  check_op(op(&taps));
  EXPECT_EQ(taps.gradients, static_cast<int>(GetParam().lengths.size()));
}

TEST_P(AttendGradients, TappedEqualsUntapped) {
  const OpRun untapped = run_op(op());
  for (const int threads : {1, 3}) {
    for (const Site site : {AttentionSite::scores_raw, AttentionSite::scores, AttentionSite::pattern}) {
      StripTaps taps(site);
      const OpRun tapped = run_op(op(&taps), threads);
      EXPECT_TRUE(same_bits(tapped.result, untapped.result));
      for (std::size_t i = 0; i < tapped.gradients.size(); ++i) {
        float worst = 0, largest = 0;
        for (std::size_t j = 0; j < tapped.gradients[i].size(); ++j) {
          worst = std::max(worst, std::abs(tapped.gradients[i][j] - untapped.gradients[i][j]));
          largest = std::max(largest, std::abs(untapped.gradients[i][j]));
        }
        EXPECT_LE(worst, 2e-6f * largest) << i;
      }
    }
  }
}

/// Keys `[T, 1, 7]`, whose first 4 elements are values.
OpCase values_in_keys(const AttendConfig& c, Taps* taps = nullptr) {
  constexpr std::int64_t kRows = 19, kValue = 4;
  OpCase op{{{kRows, c.n_heads, c.head_dim}, {kRows, 1, kValue}, {kRows, 1, c.head_dim - kValue}},
            {},
            {},
            [&c](Pass& p, const Operands& o) {
              const Tensor k = concat(p, o.x[1], o.x[2]).reshaped({kRows, 1, c.head_dim});
              const auto sources = key_sources(p, BlockSite{0}, k, k.reshaped(o.x[1].shape));
              return attend(p, BlockSite{0}, c, {}, o.x[0], k, o.x[1], sources);
            },
            [&c](const std::vector<std::vector<reference::Complex>>& x) {
              std::vector<reference::Complex> k, v, z;
              for (std::int64_t t = 0; t < kRows; ++t) {
                for (std::int64_t i = 0; i < c.head_dim; ++i) {
                  k.push_back(i < kValue ? x[1][std::size_t(t * kValue + i)]
                                         : x[2][std::size_t(t * (c.head_dim - kValue) + i - kValue)]);
                  v.push_back(i < kValue ? k.back() : 0);  // the reference has values as wide as keys
                }
              }
              AttendConfig as_wide = c;
              as_wide.value_dim.reset();
              const auto wide = reference::attend(as_wide, {}, {kRows}, x[0], k, v);
              for (std::size_t i = 0; i < wide.size(); ++i) {
                if (static_cast<std::int64_t>(i) % c.head_dim < kValue) z.push_back(wide[i]);
              }
              return z;
            }};
  op.taps = taps;
  return op;
}

TEST(AttendValuesInKeys, MatchTheFormula) {
  AttendConfig c{5, 1, 7, 0.4f, {}};
  c.value_dim = 4;
  check_op(values_in_keys(c));
  StripTaps taps(AttentionSite::scores);
  check_op(values_in_keys(c, &taps));
  const OpRun tapped = run_op(values_in_keys(c, &taps), 3), untapped = run_op(values_in_keys(c));
  EXPECT_TRUE(same_bits(tapped.result, untapped.result));
}

/// Attention with these sizes; a softcap of 0: none.
void add(std::vector<Attention>& all, const std::string& name, const std::array<std::int64_t, 3>& sizes, float scale,
         float softcap, std::vector<std::int64_t> lengths, Mask mask = {}) {
  Attention& added = all.emplace_back();
  added.name = name;
  added.config.n_heads = sizes[0];
  added.config.n_kv_heads = sizes[1];
  added.config.head_dim = sizes[2];
  added.config.score_scale = scale;
  if (softcap > 0) added.config.softcap = softcap;
  added.lengths = std::move(lengths);
  added.mask = mask;
}

std::vector<Attention> configs() {
  std::vector<Attention> all;
  add(all, "plain", {3, 3, 5}, 0.5f, 0, {7});
  add(all, "grouped", {4, 2, 6}, 0.4f, 0, {19});
  add(all, "one_kv_head", {5, 1, 6}, 0.4f, 0, {18});
  add(all, "softcap", {4, 2, 6}, 2.0f, 3.0f, {11});
  add(all, "window", {4, 2, 6}, 0.7f, 0, {17}, {Mask::Kind::causal, 4});
  add(all, "window_of_one", {2, 1, 6}, 0.7f, 0, {5}, {Mask::Kind::causal, 1});
  add(all, "segments", {4, 2, 6}, 0.7f, 0, {9, 1, 6});
  add(all, "all_options", {4, 2, 6}, 1.5f, 2.0f, {9, 1, 8}, {Mask::Kind::causal, 3});
  add(all, "full", {4, 2, 6}, 0.7f, 3.0f, {9, 1, 17}, {Mask::Kind::full, {}});
  add(all, "full_window", {2, 1, 6}, 0.7f, 0, {9}, {Mask::Kind::full, 4});
  add(all, "chunks", {4, 2, 6}, 0.7f, 0, {17}, {Mask::Kind::causal, 4, true});
  add(all, "chunks_of_segments", {2, 1, 6}, 0.7f, 2.0f, {9, 1, 8}, {Mask::Kind::causal, 3, true});
  const std::vector<Attention> without = all;
  for (const char* name : {"plain", "grouped", "all_options", "full", "chunks"}) {
    const auto is_named = [&](const Attention& a) { return a.name == name; };
    Attention& added = all.emplace_back(*std::find_if(without.begin(), without.end(), is_named));
    added.name += "_with_sinks";
    added.config.sink = true;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Configs, AttendGradients, testing::ValuesIn(configs()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace vitrine::test
