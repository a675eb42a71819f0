// The lens and the head scores, compared with float64 arithmetic on recorded values, for every golden model.
#include "inspect/lens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "checkpoint/param_rows.h"
#include "generate/score.h"
#include "inspect/head_scores.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// A model with the objects to run it.
struct Runner {
  explicit Runner(const std::string& name) : checkpoint(golden_checkpoint(name)), ids(golden_ids(name)) {
    context = {checkpoint.model.get(), &pool, &default_kernels()};
    context.compute = Compute::f32;  // as the reference
  }

  Checkpoint checkpoint;
  ThreadPool pool{2};
  GenerateContext context;
  std::vector<std::int32_t> ids;
};

double element(const MatrixView& view, std::int64_t r, std::int64_t i) {
  float value = 0;
  kernels_for(Isa::scalar).widen(view.at(r, i), view.dtype, 1, &value);
  return static_cast<double>(value);
}

std::vector<double> product(const MatrixView& w, std::span<const double> x) {
  std::vector<double> y(static_cast<std::size_t>(w.rows));
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[r] += x[i] * element(w, static_cast<std::int64_t>(r), static_cast<std::int64_t>(i));
    }
  }
  return y;
}

double mean_square(std::span<const double> x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size());
}

/// What the head reads of a row of the stream: of several streams the mean, each mapped to the magnitude of the first.
std::vector<double> one_stream(const Model& model, std::span<const float> state) {
  const std::vector<double> row(state.begin(), state.end());
  if (!model.config().altup) return row;
  const auto d = static_cast<std::size_t>(model.config().d_model);
  const std::span<const double> all(row), first = all.first(d);
  std::vector<double> sum(first.begin(), first.end());
  const std::vector<LinearParams>& maps = model.params().streams.out;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::vector<double> mapped = product(maps[i].weight.view, all.subspan((i + 1) * d, d));
    const double factor = std::sqrt(mean_square(first) / std::max(mean_square(mapped), 1e-5));
    for (std::size_t k = 0; k < d; ++k) sum[k] += factor * mapped[k];
  }
  for (double& x : sum) x /= static_cast<double>(maps.size() + 1);
  return sum;
}

/// Logits of one state, from its row, the final norm and the unembedding in float64.
std::vector<double> logits_in_double(const Model& model, std::span<const float> state) {
  const ModelConfig& c = model.config();
  std::vector<double> x = one_stream(model, state);
  if (c.final_norm) {
    const auto d = static_cast<double>(x.size());
    const bool centers = c.final_norm->kind == NormConfig::Kind::layer;
    const double mean = centers ? std::accumulate(x.begin(), x.end(), 0.0) / d : 0;
    double squares = 0;
    for (const double v : x) squares += (v - mean) * (v - mean);
    const double scale = std::sqrt(squares / d + static_cast<double>(c.final_norm->eps));
    const NormParams& w = model.params().final_norm;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      x[i] = (x[i] - mean) / scale;
      if (w.weight.present()) x[i] *= static_cast<double>(c.final_norm->weight_offset) + element(w.weight.view, 0, at);
      if (w.bias.present()) x[i] += element(w.bias.view, 0, at);
    }
  }
  if (c.head.width) x = product(model.params().head_proj.weight.view, x);
  const Param& unembed = c.head.tied ? model.params().embed : model.params().unembed.weight;
  std::vector<double> logits;
  for (std::int64_t v = 0; v < c.vocab_size; ++v) {
    double sum = c.head.bias ? element(model.params().unembed.bias.view, 0, v) : 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * element(unembed.view, v, static_cast<std::int64_t>(i));
    sum *= static_cast<double>(c.head.scale);
    if (c.head.softcap) {
      const auto cap = static_cast<double>(*c.head.softcap);
      sum = cap * std::tanh(sum / cap);
    }
    logits.push_back(sum);
  }
  return logits;
}

double log_sum(const std::vector<double>& logits) {
  double sum = 0;
  const double most = *std::max_element(logits.begin(), logits.end());
  for (const double x : logits) sum += std::exp(x - most);
  return most + std::log(sum);
}

class LensOf : public testing::TestWithParam<std::string> {};

TEST_P(LensOf, EveryStateMatchesFloat64) {
  const Runner run(GetParam());
  const Model& model = *run.checkpoint.model;
  const bool has_streams = model.config().altup.has_value();  // between sublayers only one of them has a value
  if (has_streams) {
    EXPECT_THROW(lens(run.context, run.ids, {3, {1, 2}, true}), Unsupported);
  }
  const Lens found = lens(run.context, run.ids, {3, {1, 2}, !has_streams});
  Probe probe(model);
  logits_of(model, run.ids, {.taps = &probe, .compute = Compute::f32});
  const auto d = static_cast<std::size_t>(model.config().width_before(model.config().n_layers()));
  const auto row_of = [&](std::size_t state, std::size_t t) {
    return std::span(probe.values.at(name_of(found.states[state])).data).subspan(t * d, d);
  };
  for (std::size_t t = 0; t < run.ids.size(); t += 3) {
    const std::vector<double> last = logits_in_double(model, row_of(found.states.size() - 1, t));
    for (std::size_t state = 0; state < found.states.size(); ++state) {
      const std::vector<double> logits = logits_in_double(model, row_of(state, t));
      const LensCell& cell = found.cells[state][t];
      const double z = log_sum(logits), last_z = log_sum(last);
      double entropy = 0, kl = 0, largest = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        entropy -= std::exp(logits[i] - z) * (logits[i] - z);
        kl += std::exp(last[i] - last_z) * ((last[i] - last_z) - (logits[i] - z));
        largest = std::max(largest, std::abs(logits[i]));
      }
      const double tolerance = 1e-5 * (1 + largest);
      ASSERT_NEAR(cell.entropy, entropy, tolerance);
      ASSERT_NEAR(cell.kl, kl, tolerance);
      for (const LensToken& token : cell.tokens) {
        ASSERT_NEAR(static_cast<double>(token.logit), logits[static_cast<std::size_t>(token.id)], tolerance);
        ASSERT_NEAR(token.logprob, logits[static_cast<std::size_t>(token.id)] - z, tolerance);
      }
    }
  }
}

TEST_P(LensOf, TheLastStateIsThePrediction) {
  const Runner run(GetParam());
  const Lens found = lens(run.context, run.ids, {4});
  predict(run.context, run.ids, 4, [&](std::int64_t t, const std::vector<TokenLogprob>& top) {
    const LensCell& cell = found.cells.back()[static_cast<std::size_t>(t)];
    ASSERT_EQ(cell.top.size(), top.size());
    for (std::size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(cell.top[i].id, top[i].id);
      EXPECT_EQ(cell.top[i].logprob, top[i].logprob);
    }
    EXPECT_EQ(cell.kl, 0);
  });
}

/// |M| of a head, summed over its maps, each row divided by its sum.
std::vector<double> shares_of(const std::vector<float>& m, std::size_t n, std::size_t n_heads, std::size_t head) {
  const std::size_t maps = m.size() / (n * n), of_head = maps / n_heads;
  std::vector<double> shares(n * n);
  for (std::size_t t = 0; t < n; ++t) {
    double sum = 0;
    for (std::size_t i = 0; i < of_head * n; ++i) {
      const double weight = std::abs(static_cast<double>(m[(t * maps + head * of_head) * n + i]));
      shares[t * n + i % n] += weight;
      sum += weight;
    }
    for (std::size_t s = 0; s < n && sum > 0; ++s)
      shares[t * n + s] = static_cast<double>(static_cast<float>(shares[t * n + s] / sum));
  }
  return shares;
}

TEST_P(LensOf, HeadScoresMatchTheirDefinitions) {
  const Runner run(GetParam());
  if (max_heads(run.checkpoint.model->config()) == 0 && !has_recurrence(*run.checkpoint.model)) {
    EXPECT_THROW(head_scores(run.context, run.ids), Unsupported);
    return;
  }
  std::vector<std::string> sites;
  if (max_heads(run.checkpoint.model->config()) > 0) sites = {"*hook_pattern"};
  if (has_recurrence(*run.checkpoint.model)) {
    sites.insert(sites.end(), {"*hook_effective_attention", "*hook_ssm_carry"});
  }
  Probe probe(*run.checkpoint.model, sites);
  logits_of(*run.checkpoint.model, run.ids, {.taps = &probe, .compute = Compute::f32});
  const std::size_t n = run.ids.size();
  const std::vector<HeadScores> all_scores = head_scores(run.context, run.ids);
  for (const HeadScores& h : all_scores) {
    const std::string sublayer = fmt::format("blocks.{}.{}.", h.layer, h.sublayer);
    std::vector<double> weights;
    if (h.sublayer == "attn") {
      const std::vector<float>& pattern = probe.values.at(sublayer + "hook_pattern").data;
      const auto first = pattern.begin() + static_cast<std::ptrdiff_t>(h.head) * static_cast<std::ptrdiff_t>(n * n);
      weights.assign(first, first + static_cast<std::ptrdiff_t>(n * n));
    } else {
      const auto n_heads =
          static_cast<std::size_t>(std::count_if(all_scores.begin(), all_scores.end(), [&](const HeadScores& other) {
            return other.layer == h.layer && other.sublayer == h.sublayer;
          }));
      weights = shares_of(probe.values.at(sublayer + "hook_effective_attention").data, n, n_heads,
                          static_cast<std::size_t>(h.head));
      const std::vector<float>& states = probe.values.at(sublayer + "hook_ssm_carry").data;
      const std::size_t size = states.size() / n / n_heads;
      ASSERT_EQ(h.sizes.size(), n);
      for (std::size_t t = 0; t < n; ++t) {
        double squares = 0;
        for (std::size_t i = 0; i < size; ++i) {
          squares +=
              std::pow(static_cast<double>(states[(t * n_heads + static_cast<std::size_t>(h.head)) * size + i]), 2);
        }
        EXPECT_NEAR(h.sizes[t], std::sqrt(squares), 1e-9 * (1 + std::sqrt(squares)));
      }
      EXPECT_GT(h.half_life.value(), 0);
    }
    const auto p = [&](std::size_t t, std::size_t s) { return weights[t * n + s]; };
    double previous = 0, first = 0, current = 0, distance = 0, entropy = 0, duplicate = 0, induction = 0, n_equal = 0;
    double nothing = 1;
    for (std::size_t t = 0; t < n; ++t) {
      bool has_equal = false;
      for (std::size_t s = 0; s < n; ++s) {
        distance += p(t, s) * (static_cast<double>(t) - static_cast<double>(s));
        if (p(t, s) > 0) entropy -= p(t, s) * std::log(p(t, s));
        if (s >= t || run.ids[s] != run.ids[t]) continue;
        has_equal = true;
        duplicate += p(t, s);
        induction += p(t, s + 1);
      }
      for (std::size_t s = 0; s < n; ++s) nothing -= p(t, s) / static_cast<double>(n);
      n_equal += has_equal ? 1 : 0;
      current += p(t, t);
      if (t > 0) previous += p(t, t - 1);
      if (t > 0) first += p(t, 0);
    }
    const auto all = static_cast<double>(n);
    EXPECT_NEAR(*h.previous, previous / (all - 1), 1e-9);
    EXPECT_NEAR(*h.first, first / (all - 1), 1e-9);
    EXPECT_NEAR(h.current, current / all, 1e-9);
    EXPECT_NEAR(h.distance, distance / all, 1e-9);
    EXPECT_NEAR(h.entropy, entropy / all, 1e-9);
    const auto* const attention = attention_of(run.checkpoint.model->config(), static_cast<std::size_t>(h.layer));
    const bool has_sink = attention != nullptr && attention->sink;
    ASSERT_EQ(h.nothing.has_value(), has_sink);
    if (has_sink) {
      EXPECT_NEAR(*h.nothing, nothing, 1e-9);
    }
    EXPECT_EQ(h.duplicate.has_value(), n_equal > 0);
    if (n_equal == 0) continue;
    EXPECT_NEAR(*h.duplicate, duplicate / n_equal, 1e-9);
    EXPECT_NEAR(*h.induction, induction / n_equal, 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, LensOf, testing::ValuesIn(golden_cases()),
                         [](const auto& test) { return test.param; });

TEST(Lens, RefusesUnknownTokensAndEmptyTexts) {
  const Runner run("gpt2");
  EXPECT_THROW(lens(run.context, run.ids, {1, {100000}}), BadInput);
  EXPECT_THROW(lens(run.context, std::vector<std::int32_t>(), {1}), BadInput);
}

/// The half-life of a state that keeps a known share of itself.
TEST(HeadScores, TheHalfLifeIsThatOfTheMeanDecay) {
  const Runner run("mamba2");
  const std::vector<SiteWrite> writes = {parse_site_write("blocks.0.mixer.hook_ssm_dt=0.125")};
  const auto scores = head_scores(run.context, run.ids, writes);
  const auto& w = std::get<Mamba2Params>(run.checkpoint.model->params().blocks[0].sublayers[0].what);
  std::vector<float> logs(static_cast<std::size_t>(w.a_log.view.cols));
  read_row(w.a_log.view, 0, logs);
  for (const HeadScores& h : scores) {
    if (h.layer != 0) continue;
    const double rate = std::exp(static_cast<double>(logs[static_cast<std::size_t>(h.head)]));
    EXPECT_NEAR(*h.half_life, std::log(2.0) / (0.125 * rate), 1e-5 * *h.half_life);
  }
}

TEST(HeadScores, OneTokenHasNoPreviousOne) {
  const Runner run("gpt2");
  const std::vector<HeadScores> all = head_scores(run.context, std::vector<std::int32_t>{3});
  ASSERT_FALSE(all.empty());
  EXPECT_FALSE(all[0].previous || all[0].first || all[0].duplicate || all[0].induction);
  EXPECT_EQ(all[0].current, 1);
}

}  // namespace
}  // namespace vitrine::test
