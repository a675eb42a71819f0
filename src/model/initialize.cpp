#include "model/initialize.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/math.h"
#include "base/rng.h"

namespace vitrine {
namespace {

constexpr std::uint32_t kStream = 0x696E6974;  // "init": separate from the random numbers of sampling

/// Whether a parameter multiplies what it is a parameter of: 1 leaves it unchanged.
bool is_factor(std::string_view name) {
  return name.ends_with(kScalarName) || name.ends_with(".expert_scale.weight") || name.ends_with(".altup.scale.weight");
}

/// How the parameters of a mixer with a state begin that are no matrices of products; empty for others.
std::optional<InitRule> state_rule(std::string_view name, const Shape& shape) {
  InitRule rule;
  if (name.ends_with(".a_log")) {
    rule.form = shape.rank() == 2 ? InitRule::Form::column_rate : InitRule::Form::log_uniform_rate;
    rule.low = 1, rule.high = 16;
    rule.n_columns = shape[shape.rank() - 1];
    return rule;
  }
  if (name.ends_with(".dt_bias") || name.ends_with(".w_dt.bias")) {
    rule.form = InitRule::Form::step_bias;
    rule.low = 0.001, rule.high = 0.1;
    return rule;
  }
  if (name.ends_with(".mixer.skip")) return InitRule{1.0};
  if (shape.rank() == 2 && (name.ends_with(".conv.weight") || name.ends_with("_conv.weight"))) {
    return InitRule{0, 1 / std::sqrt(3.0 * static_cast<double>(shape[1]))};
  }
  return {};
}

/// Element `i` of a form that is not normal, from a number that is uniform between 0 and 1.
double form_value(const InitRule& rule, std::uint64_t i, double u) {
  switch (rule.form) {
    case InitRule::Form::log_uniform_rate:
      return math::log(rule.low + (rule.high - rule.low) * u);
    case InitRule::Form::column_rate:
      return math::log(static_cast<double>(i % static_cast<std::uint64_t>(rule.n_columns) + 1));
    case InitRule::Form::step_bias: {
      const double step = math::exp(math::log(rule.low) + u * (math::log(rule.high) - math::log(rule.low)));
      return step + math::log(1 - math::exp(-step));
    }
    case InitRule::Form::normal:
      break;
  }
  return 0;
}

double normal_probability(double x) { return 0.5 * math::erfc(-x / std::sqrt(2.0)); }

}  // namespace

InitRule init_rule(const ModelConfig& config, const NormsByName& norms, std::string_view name, const Shape& shape,
                   const InitOptions& options) {
  using Scheme = InitOptions::Scheme;
  if (const std::optional<InitRule> rule = state_rule(name, shape)) return *rule;
  if (shape.rank() == 1) {
    if (is_factor(name)) return {1.0};
    if (name.ends_with(".xielu_alpha_p.weight")) return {0.2033823208110246};   // softplus: 0.8
    if (name.ends_with(".xielu_alpha_n.weight")) return {-1.0502256128148468};  // softplus: 0.3
    if (name.ends_with(".xielu_beta.weight")) return {0.5};
    if (name.ends_with(".xielu_eps.weight")) return {-1e-6};
    const NormConfig* const norm = norm_of_weight(norms, name);
    return {norm != nullptr ? 1.0 - static_cast<double>(norm->weight_offset) : 0.0};
  }
  const bool is_normal =
      options.scheme == Scheme::normal || (options.scheme == Scheme::by_config && config.embedding.position_table);
  const double cut = is_normal ? 0 : 3;
  const StackConfig& stack = name.starts_with("encoder.") ? *config.encoder : config;
  if (name == "embed.weight" || name.ends_with(".embed.weight")) {
    const bool is_scaled = stack.embedding.scale != 1.0f;
    const bool is_tied = config.head.tied && &stack == &config;
    const double unscaled = is_normal ? options.std : is_tied ? 0.02 : 1.0;
    return {0, options.embedding_std.value_or(is_scaled ? 1.0 / static_cast<double>(stack.embedding.scale) : unscaled),
            cut};
  }
  if (name == "per_layer_embed.weight") return {0, 1.0 / static_cast<double>(stack.per_layer->scale), cut};
  if (name.find("rnn.weight_") != std::string_view::npos) {  // as U(±1 / √d_hidden), torch.nn's
    const RecurrentConfig& cell = *recurrent_layer(stack, 0);
    return {0, 1 / std::sqrt(3.0 * static_cast<double>(cell.d_hidden)), cut};
  }
  if (is_normal) {
    const bool writes =
        name.ends_with(".wo.weight") || name.ends_with(".w_down.weight") || name.ends_with(".w_out.weight");
    return {0, writes ? options.std / std::sqrt(2.0 * static_cast<double>(stack.n_layers())) : options.std};
  }
  if (name.ends_with("pos_embed.weight")) return {0, 0.02, cut};
  return {0, std::sqrt(2.0 / static_cast<double>(shape[0] + shape[1])), cut};
}

void draw_initial(const InitRule& rule, std::uint64_t seed, std::uint64_t param, std::int64_t first,
                  std::span<float> out) {
  if (rule.std == 0 && rule.form == InitRule::Form::normal)
    return std::fill(out.begin(), out.end(), static_cast<float>(rule.mean));
  const double lowest = rule.cut > 0 ? normal_probability(-rule.cut) : 0;
  const double width = 1 - 2 * lowest;
  const auto key = std::array{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const auto begin = static_cast<std::uint64_t>(first);
  const std::uint64_t end = begin + out.size();
  for (std::uint64_t block = begin / 4; block * 4 < end; ++block) {
    const auto bits = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                              static_cast<std::uint32_t>(param), kStream},
                             key);
    for (std::uint64_t i = std::max(block * 4, begin); i < std::min(block * 4 + 4, end); ++i) {
      const double u = (static_cast<double>(bits[i % 4]) + 0.5) * 0x1p-32;
      if (rule.form != InitRule::Form::normal) {
        out[i - begin] = static_cast<float>(form_value(rule, i, u));
        continue;
      }
      out[i - begin] = static_cast<float>(rule.mean + rule.std * math::normal_quantile(lowest + width * u));
    }
  }
}

}  // namespace vitrine
