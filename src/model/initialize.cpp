#include "model/initialize.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/rng.h"

namespace vitrine {
namespace {

constexpr std::uint32_t kStream = 0x696E6974;  // "init": separate from the random numbers of sampling

template <std::size_t N>
double polynomial(const double (&c)[N], double x) {
  double y = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) y = y * x + c[i];
  return y;
}

/// The quantile of the standard normal distribution for p in (0, 1), with a relative error of 1e-16. Source: Wichura
/// 1988, algorithm AS 241 (PPND16).
double normal_quantile(double p) {
  static constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                 1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[] = {1.0,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
  static constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                 3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
  static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                 2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-math::log(std::min(p, 1 - p)));
  const double x =
      r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -x : x;
}

/// Whether a parameter multiplies what it is a parameter of: 1 leaves it unchanged.
bool is_factor(std::string_view name) { return name.ends_with(kScalarName) || name.ends_with(".expert_scale.weight"); }

double normal_probability(double x) { return 0.5 * math::erfc(-x / std::sqrt(2.0)); }

}  // namespace

InitRule init_rule(const ModelConfig& config, const NormsByName& norms, std::string_view name, const Shape& shape,
                   const InitOptions& options) {
  using Scheme = InitOptions::Scheme;
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
    const bool writes = name.ends_with(".wo.weight") || name.ends_with(".w_down.weight");
    return {0, writes ? options.std / std::sqrt(2.0 * static_cast<double>(stack.n_layers())) : options.std};
  }
  if (name.ends_with("pos_embed.weight")) return {0, 0.02, cut};
  return {0, std::sqrt(2.0 / static_cast<double>(shape[0] + shape[1])), cut};
}

void draw_initial(const InitRule& rule, std::uint64_t seed, std::uint64_t param, std::int64_t first,
                  std::span<float> out) {
  if (rule.std == 0) return std::fill(out.begin(), out.end(), static_cast<float>(rule.mean));
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
      out[i - begin] = static_cast<float>(rule.mean + rule.std * normal_quantile(lowest + width * u));
    }
  }
}

}  // namespace vitrine
