#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "look/figures.h"

namespace vitrine {
namespace {

/// The loss that the log has for the step, else the one before it.
double loss_at(const LookRun& run, std::int64_t step) {
  double loss = kNoValue;
  for (const auto& [at, value] : run.losses) {
    if (at <= static_cast<double>(step)) loss = value;
  }
  return loss;
}

bool has_same_shape(const ModelConfig& a, const ModelConfig& b) {
  const auto heads = [](const ModelConfig& config, std::size_t layer) {
    const AttendConfig* const of_layer = heads_of(config, layer);
    return of_layer != nullptr ? of_layer->n_heads : 0;
  };
  if (a.vocab_size != b.vocab_size || a.n_layers() != b.n_layers()) return false;
  for (std::size_t i = 0; i < a.n_layers(); ++i) {
    if (heads(a, i) != heads(b, i)) return false;
  }
  return true;
}

Checkpoint open_step(const LookRun& run, std::int64_t step, const ModelConfig& config) {
  Checkpoint checkpoint = run.open(step);
  if (has_same_shape(checkpoint.model->config(), config)) return checkpoint;
  throw BadInput("--run", "{}: expected checkpoints with the vocabulary, layers and heads of MODEL; step {} differs",
                 run.folder, step);
}

/// What the checkpoints predict, and their head scores `[kind][C, L, H]`.
struct RunSeries {
  std::vector<std::int32_t> ids;
  std::vector<double> probs;
  std::vector<std::vector<double>> scores;
};

void add_checkpoint(const Recording& r, ThreadPool& pool, RunSeries& series) {
  for (const std::vector<TokenLogprob>& top : r.top) {
    for (const TokenLogprob& t : top) {
      series.ids.push_back(t.id);
      series.probs.push_back(math::exp(t.logprob));
    }
  }
  const std::int64_t most = max_heads(*r.facts.config);
  const std::vector<HeadScores> scores = scores_of(r, pool);
  series.scores.resize(std::size(kScoresOfHeads));
  for (std::size_t kind = 0; kind < series.scores.size(); ++kind) {
    std::vector<double>& all = series.scores[kind];
    const std::size_t first = all.size();
    all.resize(first + r.facts.config->n_layers() * static_cast<std::size_t>(most), kNoValue);
    for (const HeadScores& s : scores) {
      all[first + static_cast<std::size_t>(s.layer * most + s.head)] = kScoresOfHeads[kind].value(s);
    }
  }
}

void add_maps_of_checkpoint(const Recording& r, std::int64_t step, LookData& data) {
  for (std::size_t l = 0; l < r.facts.config->n_layers(); ++l) {
    const std::string site = in_block(static_cast<std::int64_t>(l), "attn.hook_pattern");
    if (!r.has(site)) continue;
    const Shape& shape = r.shape(site);
    data.add_picture(fmt::format("run maps {}", l), fmt::format("run.{}.{}", step, site),
                     {shape[0], shape[1], shape[2]}, r.value(site).values);
  }
}

}  // namespace

void check_run(const LookRun& run, const ModelConfig& config) {
  for (const std::int64_t step : run.steps) open_step(run, step, config);
}

void add_run_values(const GenerateContext& base, const Recording& r, const LookRun& run, bool with_maps,
                    LookData& data) {
  RunSeries series;
  std::vector<double> steps, losses;
  for (const std::int64_t step : run.steps) {
    const Checkpoint checkpoint = open_step(run, step, *r.facts.config);
    GenerateContext context = base;
    context.model = checkpoint.model.get();
    const Recording own = record(context, r.facts.ids, r.position, kLookTop);
    add_checkpoint(own, *context.pool, series);
    if (with_maps) add_maps_of_checkpoint(own, step, data);
    steps.push_back(static_cast<double>(step));
    losses.push_back(loss_at(run, step));
  }
  const auto n = static_cast<std::int64_t>(steps.size()), t = r.n_tokens();
  const auto k = static_cast<std::int64_t>(series.ids.size()) / std::max<std::int64_t>(1, n * t);
  data.add("run", "run.step", steps);
  data.add("run", "run.loss", losses);
  data.add("run", "run.top.id", {n, t, k}, series.ids);
  data.add("run", "run.top.prob", {n, t, k}, series.probs);
  const auto n_layers = static_cast<std::int64_t>(r.facts.config->n_layers());
  for (std::size_t kind = 0; kind < series.scores.size(); ++kind) {
    data.add("run", std::string("run.heads.") + kScoresOfHeads[kind].name, {n, n_layers, max_heads(*r.facts.config)},
             series.scores[kind]);
  }
  std::vector<double> at, values;
  for (const auto& [step, loss] : run.losses) {
    at.push_back(step);
    values.push_back(loss);
  }
  data.add("run", "run.curve.step", at);
  data.add("run", "run.curve.loss", {static_cast<std::int64_t>(at.size())}, values);
}

}  // namespace vitrine
