#include "inspect/lens.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "generate/each_exp.h"
#include "generate/sampler.h"
#include "inspect/final_rows.h"
#include "inspect/text_pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLogitElements = std::int64_t{1} << 23;  // 32 MiB of logits at a time

/// The states of the stream, `[states][T · d]`.
std::vector<std::vector<float>> read_states(const GenerateContext& context, Pass& pass, const Tokens& tokens,
                                            const std::vector<SiteId>& states) {
  std::vector<std::vector<float>> values(states.size());
  SiteReader reader(states, [&](Pass&, const SiteId& id, const Tensor& value) {
    const auto at = std::find(states.begin(), states.end(), id) - states.begin();
    values[static_cast<std::size_t>(at)].assign(value.data, value.data + value.count());
  });
  pass.taps = &reader;
  context.model->forward(pass, tokens);
  pass.taps = nullptr;
  return values;
}

std::vector<SiteId> states_of(const ModelConfig& config, const LensOptions& options) {
  std::vector<SiteId> states = stream_states(config, options.sublayers);
  if (options.trained == nullptr) return states;
  if (options.sublayers) throw Unsupported("lens", "a trained lens has no maps of the states between sublayers");
  states.erase(states.begin(), states.begin() + mapped_states(options.trained->kind, config).first);
  return states;
}

/// Replaces each state but the last one by what its map makes of it.
void map_all(Pass& p, const TrainedLens& lens, std::span<const Tensor> states) {
  for (std::size_t i = 0; i + 1 < states.size(); ++i) {
    const ArenaScope scope(p.arena);
    const Tensor mapped = map_states(p, lens.kind, lens.layers[i], states[i]);
    p.copy(mapped.data, mapped.count(), states[i].data);
  }
}

LensToken token_in(std::span<const float> logits, std::int32_t id, double normalizer) {
  const float logit = logits[static_cast<std::size_t>(id)];
  return {id, logit, static_cast<double>(logit) - normalizer, rank_of(logits, id)};
}

/// What is known of a distribution after one pass over its logits.
struct Summary {
  double normalizer = 0;  ///< That of log_sum_exp(), with the same bits.
  double entropy = 0;
};

Summary summary_of(std::span<const float> logits) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0, weighted = 0;
  each_exp(logits, max, [&](double x, double e) {
    sum += e;
    if (e > 0) weighted += e * x;
  });
  return {max + math::log(sum), math::log(sum) - weighted / sum};
}

LensCell cell_of(std::span<const float> logits, const Summary& summary, const LensOptions& options, std::size_t t) {
  LensCell cell;
  cell.entropy = summary.entropy;
  for (const std::int32_t id : max_likely(logits, options.top)) {
    const auto rank = static_cast<std::int64_t>(cell.top.size());
    const float logit = logits[static_cast<std::size_t>(id)];
    cell.top.push_back({id, logit, static_cast<double>(logit) - summary.normalizer, rank});
  }
  for (const std::int32_t id : options.tokens) cell.tokens.push_back(token_in(logits, id, summary.normalizer));
  if (!options.by_position.empty()) {
    cell.tokens.push_back(token_in(logits, options.by_position[t], summary.normalizer));
  }
  return cell;
}

/// Rows first … first + n of all states, one state after the other.
Tensor rows_of_states(Arena& arena, std::span<const Tensor> states, std::int64_t first, std::int64_t n) {
  const std::int64_t d = states.front().row_size();
  const Tensor rows = arena.tensor({static_cast<std::int64_t>(states.size()) * n, d});
  for (std::size_t state = 0; state < states.size(); ++state) {
    std::copy_n(states[state].row(first), n * d, rows.row(static_cast<std::int64_t>(state) * n));
  }
  return rows;
}

}  // namespace

std::vector<std::vector<LensCell>> lens_of(const GenerateContext& context, const Tokens& tokens,
                                           std::span<const Tensor> states, const LensOptions& options) {
  const ModelConfig& config = context.model->config();
  GenerateContext::check_ids(options.tokens, config.vocab_size);
  GenerateContext::check_ids(options.by_position, config.vocab_size);
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  const auto n_rows = static_cast<std::int64_t>(tokens.ids.size()), n_states = static_cast<std::int64_t>(states.size());
  std::vector<std::vector<LensCell>> cells(states.size(), std::vector<LensCell>(tokens.ids.size()));
  const std::int64_t group = std::max<std::int64_t>(1, kLogitElements / (config.vocab_size * n_states));
  for (std::int64_t first = 0; first < n_rows; first += group) {
    const std::int64_t n = std::min(group, n_rows - first);
    const ArenaScope scope(arena);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < n_states * n; ++i) numbers.push_back(first + i % n);
    const Tensor logits = context.model->head(pass, rows_of_states(arena, states, first, n), numbers);
    const FinalRows final(logits.row_range((n_states - 1) * n, n), *context.pool);
    context.pool->parallel_for(n_states * n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::span<const float> own(logits.row(i), static_cast<std::size_t>(config.vocab_size));
        const auto t = static_cast<std::size_t>(first + i % n);
        LensCell& cell = cells[static_cast<std::size_t>(i / n)][t];
        const Summary summary = summary_of(own);
        cell = cell_of(own, summary, options, t);
        cell.kl = final.divergence(i % n, own, summary.normalizer);
      }
    });
  }
  return cells;
}

Lens lens(const GenerateContext& context, const Tokens& tokens, const LensOptions& options) {
  const ModelConfig& config = context.model->config();
  Lens result;
  result.states = states_of(config, options);
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  std::vector<std::vector<float>> values = read_states(context, pass, tokens, result.states);
  std::vector<Tensor> states;
  for (std::vector<float>& state : values) {
    states.push_back(
        {state.data(), {static_cast<std::int64_t>(tokens.ids.size()), config.width_before(config.n_layers())}});
  }
  if (options.trained != nullptr) map_all(pass, *options.trained, states);
  result.cells = lens_of(context, tokens, states, options);
  return result;
}

}  // namespace vitrine
