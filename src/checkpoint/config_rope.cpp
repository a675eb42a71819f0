#include "checkpoint/config_rope.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

/// A scaling, and what it multiplies cos and sin by.
struct Scaled {
  RopeScaling scaling;
  double magnitude = 1;
};

double fraction_of(ConfigReader& table, std::string_view key, double otherwise) {
  const double fraction = table.number_or(key, otherwise);
  if (fraction > 0 && fraction <= 1) return fraction;
  throw BadCheckpoint(table.where(), "{} must be above 0 and at most 1, got {}", key, fraction);
}

double positive(ConfigReader& table, std::string_view key, double value) {
  if (!(value > 0)) throw BadCheckpoint(table.where(), "{} must be above 0, got {}", key, value);
  return value;
}

double factor_of(ConfigReader& table) { return positive(table, "factor", table.number("factor")); }

/// The magnitude that YaRN proposes for a factor.
double ramp_magnitude(double factor, double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * math::log(factor) + 1.0; }

Scaled read_yarn(ConfigReader& t, double max_seq_len, double original) {
  // null asks for the ratio of the two contexts; a factor that is not there is a mistake
  const bool by_ratio = t.stands("factor") && !t.has("factor");
  YarnScaling s;
  s.original_max_seq_len = original;
  s.factor = by_ratio ? max_seq_len / original : factor_of(t);
  s.beta_fast = positive(t, "beta_fast", t.number_or("beta_fast", 32));
  s.beta_slow = positive(t, "beta_slow", t.number_or("beta_slow", 1));
  s.truncate = t.flag_or("truncate", true);
  const double mscale = t.number_or("mscale", 0), all_dim = t.number_or("mscale_all_dim", 0);
  const double proposed = mscale != 0 && all_dim != 0
                              ? ramp_magnitude(s.factor, mscale) / ramp_magnitude(s.factor, all_dim)
                              : ramp_magnitude(s.factor, 1);
  t.ignore("factor");
  t.ignore("finetuned");  // how the model came about
  return {s, positive(t, "attention_factor", t.number_or("attention_factor", proposed))};
}

Scaled read_longrope(ConfigReader& t, std::int64_t dim, double max_seq_len, double original) {
  const auto read_list = [&](std::string_view key) {
    const std::vector<double> numbers = t.numbers(key);
    if (static_cast<std::int64_t>(numbers.size()) != dim / 2) {
      throw BadCheckpoint(t.where(), "{}: expected {} numbers, one for each pair, got {}", key, dim / 2,
                          numbers.size());
    }
    std::vector<float> list;
    for (const double number : numbers) list.push_back(static_cast<float>(positive(t, key, number)));
    return list;
  };
  const LongRopeScaling s{read_list("short_factor"), read_list("long_factor"), static_cast<std::int64_t>(original)};
  const double factor = positive(t, "factor", t.number_or("factor", max_seq_len / original));
  const double proposed = factor <= 1 ? 1.0 : std::sqrt(1 + math::log(factor) / math::log(original));
  return {s, positive(t, "attention_factor", t.number_or("attention_factor", proposed))};
}

Scaled read_scaling(ConfigReader& t, std::string_view type, std::int64_t dim, std::int64_t max_seq_len,
                    const RopeKeys& keys) {
  const auto max = static_cast<double>(max_seq_len);
  const auto by_table = static_cast<double>(t.size_or("original_max_position_embeddings", max_seq_len));
  const double original = keys.original_max_seq_len > 0 ? static_cast<double>(keys.original_max_seq_len) : by_table;
  if (type == "default") return {};
  if (type == "linear") return {LinearScaling{factor_of(t)}};
  if (type == "llama3") {
    const Llama3Scaling s{t.number("factor"), t.number("low_freq_factor"), t.number("high_freq_factor"), original};
    if (!(s.factor > 0 && s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor)) {
      throw BadCheckpoint(t.where(), "llama3 scaling needs factor > 0, 0 < low_freq_factor < high_freq_factor");
    }
    return {s};
  }
  if (type == "dynamic") {
    const double factor = factor_of(t);
    if (factor < 1 || dim <= 2) {
      throw BadCheckpoint(t.where(), "dynamic scaling needs a factor of at least 1 and more than 2 turned elements");
    }
    return {DynamicNtkScaling{factor, max_seq_len}};
  }
  if (type == "yarn") return read_yarn(t, max, original);
  if (type == "longrope") return read_longrope(t, dim, max, original);
  throw Unsupported(t.where(),
                    "rope scaling \"{}\" is not supported (default, linear, dynamic, llama3, yarn and longrope are)",
                    type);
}

}  // namespace

RopeConfig read_rope_table(ConfigReader& table, std::int64_t head_dim, std::int64_t max_seq_len, const RopeKeys& keys) {
  if (head_dim > kMaxHeadDim) {
    throw BadCheckpoint(table.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, head_dim);
  }
  const double theta = positive(table, "rope_theta", table.number_or("rope_theta", keys.theta));
  double fraction = keys.fraction;
  if (!keys.fraction_key.empty()) fraction = fraction_of(table, "partial_rotary_factor", fraction);
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * fraction);
  std::string type = table.text_or("rope_type", table.text_or("type", "default"));
  table.ignore("type");
  if (type == "su") type = "longrope";  // its name before the paper
  const Scaled scaled = read_scaling(table, type, dim, max_seq_len, keys);
  table.finish();
  return make_rope(theta, dim, keys.layout, scaled.scaling, static_cast<float>(scaled.magnitude));
}

RopeConfig read_rope(ConfigReader& config, std::int64_t head_dim, const RopeKeys& keys) {
  const std::int64_t max_seq_len = config.size_or("max_position_embeddings", keys.max_seq_len);
  RopeKeys outside = keys;
  outside.theta = positive(config, keys.theta_key, config.number_or(keys.theta_key, keys.theta));
  if (!keys.fraction_key.empty()) outside.fraction = fraction_of(config, keys.fraction_key, keys.fraction);
  std::optional<ConfigReader> scaling = config.object("rope_scaling");
  std::optional<ConfigReader> parameters = config.object("rope_parameters");
  if (scaling && parameters) {
    throw BadCheckpoint(config.where(), "expected either rope_scaling or rope_parameters, got both");
  }
  const Json none = Json::object();
  ConfigReader silent(none, config.where());
  if (parameters && !keys.layer_type.empty()) {
    for (const char* type : {"full_attention", "sliding_attention"}) parameters->ignore(type);
    parameters->finish();
    ConfigReader table = parameters->object(keys.layer_type).value_or(silent);
    return read_rope_table(table, head_dim, max_seq_len, outside);
  }
  if (parameters) return read_rope_table(*parameters, head_dim, max_seq_len, outside);
  if (scaling && keys.layer_type != "sliding_attention") {
    if (config.has(keys.theta_key) && scaling->number_or("rope_theta", outside.theta) != outside.theta) {
      throw BadCheckpoint(scaling->where(), "rope_theta contradicts the one outside, {}", outside.theta);
    }
    return read_rope_table(*scaling, head_dim, max_seq_len, outside);
  }
  return read_rope_table(silent, head_dim, max_seq_len, outside);
}

std::int64_t stretched_context(std::int64_t max_seq_len, const RopeConfig& rope) {
  const auto* ntk = std::get_if<DynamicNtkScaling>(&rope.scaling);
  if (ntk == nullptr) return max_seq_len;
  constexpr double kMost = 2147483647.0;
  return static_cast<std::int64_t>(std::min(kMost, static_cast<double>(max_seq_len) * ntk->factor));
}

}  // namespace vitrine
