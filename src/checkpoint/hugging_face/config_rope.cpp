#include "checkpoint/hugging_face/config_rope.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

/// A scaling, and its factor of cos and sin.
struct Scaled {
  RopeScaling scaling;
  double magnitude = 1;
};

double fraction_of(ConfigReader& table, std::string_view key, double otherwise) {
  const double fraction = table.number_or(key, otherwise);
  if (fraction > 0 && fraction <= 1) return fraction;
  throw BadCheckpoint(table.where(), "{}: expected a number above 0 and at most 1, got {}", key, fraction);
}

Scaled read_yarn(ConfigReader& t, double max_seq_len, double original) {
  // null means the ratio of the two contexts; an absent factor is an error
  const bool by_ratio = t.contains("factor") && !t.has("factor");
  YarnScaling s;
  s.original_max_seq_len = original;
  s.factor = by_ratio ? max_seq_len / original : t.positive("factor");
  s.beta_fast = t.positive_or("beta_fast", 32);
  s.beta_slow = t.positive_or("beta_slow", 1);
  s.truncate = t.flag_or("truncate", true);
  const double mscale = t.number_or("mscale", 0), all_dim = t.number_or("mscale_all_dim", 0);
  const double proposed = mscale != 0 && all_dim != 0
                              ? yarn_magnitude(s.factor, mscale) / yarn_magnitude(s.factor, all_dim)
                              : yarn_magnitude(s.factor);
  t.ignore("factor");
  t.ignore("finetuned");  // how the model was trained
  return {s, t.positive_or("attention_factor", proposed)};
}

Scaled read_longrope(ConfigReader& t, std::int64_t dim, double max_seq_len, double original) {
  const auto read_list = [&](std::string_view key) {
    const std::vector<double> numbers = t.numbers(key);
    if (static_cast<std::int64_t>(numbers.size()) != dim / 2) {
      throw BadCheckpoint(t.where(), "{}: expected {} numbers, one for each pair, got {}", key, dim / 2,
                          numbers.size());
    }
    std::vector<float> list;
    for (const double number : numbers) {
      if (!(number > 0)) throw BadCheckpoint(t.where(), "{}: expected numbers above 0, got {}", key, number);
      list.push_back(static_cast<float>(number));
    }
    return list;
  };
  const LongRopeScaling s{read_list("short_factor"), read_list("long_factor"), static_cast<std::int64_t>(original)};
  const double factor = t.positive_or("factor", max_seq_len / original);
  const double proposed = factor <= 1 ? 1.0 : std::sqrt(1 + math::log(factor) / math::log(original));
  return {s, t.positive_or("attention_factor", proposed)};
}

/// The frequencies are those of the whole head, of which a fraction rotates.
Scaled read_proportional(ConfigReader& t, std::int64_t dim) {
  const double fraction = fraction_of(t, "partial_rotary_factor", 1);
  return {ProportionalScaling{t.positive_or("factor", 1),
                              static_cast<std::int64_t>(fraction * static_cast<double>(dim)) / 2}};
}

Scaled read_scaling(ConfigReader& t, std::string_view type, std::int64_t dim, std::int64_t max_seq_len,
                    const RopeKeys& keys) {
  const auto max = static_cast<double>(max_seq_len);
  const auto by_table = static_cast<double>(t.size_or("original_max_position_embeddings", max_seq_len));
  const double original = keys.original_max_seq_len > 0 ? static_cast<double>(keys.original_max_seq_len) : by_table;
  if (type == "default") return {};
  if (type == "linear") return {LinearScaling{t.positive("factor")}};
  if (type == "llama3") {
    const Llama3Scaling s{t.positive("factor"), t.positive("low_freq_factor"), t.positive("high_freq_factor"),
                          original};
    if (s.high_freq_factor < s.low_freq_factor) {
      throw BadCheckpoint(t.where(), "high_freq_factor: expected at least low_freq_factor, {}, got {}",
                          s.low_freq_factor, s.high_freq_factor);
    }
    return {s};
  }
  if (type == "dynamic") {
    const double factor = t.positive("factor");
    if (factor < 1 || dim <= 2) {
      throw BadCheckpoint(t.where(),
                          "expected a factor of at least 1 and RoPE on more than 2 elements of a head for "
                          "dynamic scaling, got {} and {}",
                          factor, dim);
    }
    return {DynamicNtkScaling{factor, max_seq_len}};
  }
  if (type == "proportional") return read_proportional(t, dim);
  if (type == "yarn") return read_yarn(t, max, original);
  if (type == "longrope") return read_longrope(t, dim, max, original);
  throw Unsupported(
      t.where(),
      "rope scaling \"{}\" is not supported (default, linear, dynamic, llama3, yarn, longrope and proportional are)",
      type);
}

/// theta · alpha^(dim / (dim − 2)), at which the frequencies do not depend on the length; rounded as in the reference.
double stretched_theta(ConfigReader& t, double theta, std::int64_t dim) {
  const double alpha = t.positive("alpha");
  if (dim <= 2)
    throw BadCheckpoint(t.where(), "expected RoPE on more than 2 elements of a head for alpha, got {}", dim);
  for (const char* key : {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) t.ignore(key);  // of others
  const auto d = static_cast<double>(dim);
  return static_cast<double>(static_cast<float>(theta * math::pow(alpha, d / (d - 2))));
}

/// Reads RoPE from one table, whose keys must all be known.
RopeConfig read_table(ConfigReader& table, std::int64_t head_dim, std::int64_t max_seq_len, const RopeKeys& keys) {
  if (head_dim > kMaxHeadDim) {
    throw BadCheckpoint(table.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, head_dim);
  }
  double theta = table.positive_or("rope_theta", keys.theta);
  double fraction = keys.fraction;
  if (!keys.fraction_key.empty()) fraction = fraction_of(table, "partial_rotary_factor", fraction);
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * fraction);
  std::string type = table.text_or("rope_type", table.text_or("type", "default"));
  table.ignore("type");
  if (type == "su") type = "longrope";  // its name before the paper
  if (keys.has_alpha && type == "dynamic" && table.number_or("alpha", 0) != 0) {
    theta = stretched_theta(table, theta, dim);
    type = "default";
  }
  if (keys.has_query_scale) {
    for (const char* key : {"llama_4_scaling_beta", "max_position_embeddings"}) table.ignore(key);
  }
  if (keys.ignores_fraction) table.ignore("partial_rotary_factor");
  if (keys.has_sections) {
    for (const char* key : {"mrope_section", "mrope_interleaved"}) table.ignore(key);
  }
  const Scaled scaled = read_scaling(table, type, dim, max_seq_len, keys);
  table.finish();
  return make_rope(theta, dim, keys.layout, scaled.scaling, static_cast<float>(scaled.magnitude));
}

}  // namespace

RopeConfig read_rope(ConfigReader& config, std::int64_t head_dim, std::int64_t max_seq_len, const RopeKeys& keys) {
  RopeKeys outside = keys;
  outside.theta = config.positive_or(keys.theta_key, keys.theta);
  if (!keys.fraction_key.empty()) outside.fraction = fraction_of(config, keys.fraction_key, keys.fraction);
  std::optional<ConfigReader> scaling = config.object("rope_scaling");
  std::optional<ConfigReader> parameters = config.object("rope_parameters");
  if (scaling && parameters) {
    throw BadCheckpoint(config.where(), "expected either rope_scaling or rope_parameters, got both");
  }
  const Json none = Json::object();
  ConfigReader empty(none, config.where());
  if (parameters && !keys.layer_type.empty()) {
    for (const char* type : {"full_attention", "sliding_attention"}) parameters->ignore(type);
    parameters->finish();
    ConfigReader table = parameters->object(keys.layer_type).value_or(empty);
    return read_table(table, head_dim, max_seq_len, outside);
  }
  if (parameters) return read_table(*parameters, head_dim, max_seq_len, outside);
  if (scaling && keys.layer_type != "sliding_attention") {
    if (config.has(keys.theta_key) && scaling->number_or("rope_theta", outside.theta) != outside.theta) {
      throw BadCheckpoint(scaling->where(), "rope_theta contradicts that of the config, {}", outside.theta);
    }
    return read_table(*scaling, head_dim, max_seq_len, outside);
  }
  const RopeConfig plain = read_table(empty, head_dim, max_seq_len, outside);
  if (std::holds_alternative<std::monostate>(keys.scaling)) return plain;
  return make_rope(plain.theta, plain.dim, plain.layout, keys.scaling);
}

std::int64_t stretched_context(std::int64_t max_seq_len, const RopeConfig& rope) {
  const auto* growing = std::get_if<DynamicNtkScaling>(&rope.scaling);
  if (growing == nullptr) return max_seq_len;
  constexpr double kMax = 2147483647.0;
  return static_cast<std::int64_t>(std::min(kMax, static_cast<double>(max_seq_len) * growing->factor));
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * math::log(factor) + 1.0;
}

}  // namespace vitrine
