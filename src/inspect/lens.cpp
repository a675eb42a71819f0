#include "inspect/lens.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "generate/sampler.h"
#include "inspect/text_pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLogitElements = std::int64_t{1} << 23;  // 32 MiB of logits at a time, twice

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

LensToken token_in(std::span<const float> logits, std::int32_t id, double normalizer) {
  const float logit = logits[static_cast<std::size_t>(id)];
  return {id, logit, static_cast<double>(logit) - normalizer, rank_of(logits, id)};
}

LensCell cell_of(std::span<const float> logits, std::span<const float> final_logits, const LensOptions& options) {
  LensCell cell;
  for (const TokenLogprob& t : top_logprobs(logits, options.top)) {
    const auto rank = static_cast<std::int64_t>(cell.top.size());
    cell.top.push_back({t.id, logits[static_cast<std::size_t>(t.id)], t.logprob, rank});
  }
  const double normalizer = log_sum_exp(logits), final_normalizer = log_sum_exp(final_logits);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double own = static_cast<double>(logits[i]) - normalizer;
    const double last = static_cast<double>(final_logits[i]) - final_normalizer;
    const double p = math::exp(own), p_last = math::exp(last);
    if (p > 0) cell.entropy -= p * own;
    if (p_last > 0) cell.kl += p_last * (last - own);
  }
  for (const std::int32_t id : options.tokens) cell.tokens.push_back(token_in(logits, id, normalizer));
  return cell;
}

}  // namespace

Lens lens(const GenerateContext& context, const Tokens& tokens, const LensOptions& options) {
  const ModelConfig& config = context.model->config();
  GenerateContext::check_ids(options.tokens, config.vocab_size);
  Lens result;
  result.states = stream_states(config, options.sublayers);
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  std::vector<std::vector<float>> states = read_states(context, pass, tokens, result.states);
  const auto n_rows = static_cast<std::int64_t>(tokens.ids.size());
  const std::int64_t d = config.output_width();
  result.cells.assign(states.size(), std::vector<LensCell>(tokens.ids.size()));
  std::vector<std::int64_t> numbers(tokens.ids.size());
  std::iota(numbers.begin(), numbers.end(), 0);

  const std::int64_t group = std::max<std::int64_t>(1, kLogitElements / config.vocab_size);
  for (std::int64_t first = 0; first < n_rows; first += group) {
    const std::int64_t n = std::min(group, n_rows - first);
    const auto of_group = std::span(numbers).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
    const ArenaScope group_scope(arena);
    const auto logits_of = [&](std::size_t state) {
      return context.model->head(pass, {states[state].data() + first * d, {n, d}}, of_group);
    };
    const Tensor final_logits = logits_of(states.size() - 1);
    for (std::size_t state = 0; state < states.size(); ++state) {
      const ArenaScope scope(arena);
      const Tensor logits = state + 1 == states.size() ? final_logits : logits_of(state);
      context.pool->parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
          const auto values = [&](const Tensor& of) {
            return std::span<const float>(of.row(row), static_cast<std::size_t>(config.vocab_size));
          };
          result.cells[state][static_cast<std::size_t>(first + row)] =
              cell_of(values(logits), values(final_logits), options);
        }
      });
    }
  }
  return result;
}

}  // namespace vitrine
