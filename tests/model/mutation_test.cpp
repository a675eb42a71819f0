// Mutation tests: every golden detects a change of any field of its config (base/fields.h). With the field changed or
// removed, the logits differ from the reference by far more than the tolerance of the golden tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "base/error.h"
#include "model/mutation_lists.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

constexpr float kDetected = 4e-5f;  // 20 times the tolerance of the goldens

/// A change of a config, and of all layers alike. It is applied to all goldens whose config it changes and that have
/// the necessary parameters.
struct Mutation {
  std::string name;
  std::function<void(ModelConfig&)> change;
};

/// `blocks.attention.window` for `blocks.3.attention.window`.
std::string without_layer(const std::string& path) {
  static const std::regex kLayer("\\.[0-9]+");
  return std::regex_replace(path, kLayer, "");
}

/// Other values of a field.
template <class T>
std::vector<T> others(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return {!value};
  } else if constexpr (std::is_enum_v<T>) {
    std::vector<T> all;
    for (std::size_t i = 0; i < words(value).size(); ++i) {
      if (static_cast<T>(i) != value) all.push_back(static_cast<T>(i));
    }
    return all;
  } else if constexpr (std::is_floating_point_v<T>) {
    return {2 * value + T(0.01), value / 4, 1};
  } else if constexpr (std::is_integral_v<T>) {
    return {value + 1, value - 1, value + 2, value - 2};
  } else if constexpr (kIsOptional<T>) {
    std::vector<T> all;
    if (!value) return all;
    all.push_back(std::nullopt);
    if constexpr (!HasFields<typename T::value_type>) {
      for (const auto& other : others(*value)) all.push_back(other);
    }
    return all;
  } else if constexpr (std::is_same_v<T, RopeScaling>) {
    return {T()};
  } else if constexpr (std::is_same_v<T, std::vector<float>>) {
    return {T(value.rbegin(), value.rend())};
  } else {
    return {};
  }
}

/// The fields of a config, each once for all layers, with the number of values that `others` has for it.
std::map<std::string, std::size_t> changes_of(const ModelConfig& config) {
  std::map<std::string, std::size_t> changes;
  for_each_leaf(config, "", [&](const std::string& path, const auto& member) {
    const std::string name = without_layer(path);
    const auto ends_it = [&](const std::string& end) { return name.ends_with(end); };
    if (std::any_of(kWithoutEffect.begin(), kWithoutEffect.end(), ends_it)) return;
    std::size_t& n = changes[name];
    n = std::max(n, others(member).size());
  });
  return changes;
}

void compute_frequencies(AttentionConfig& c) {
  if (!c.rope) return;
  if (const auto* s = std::get_if<LongRopeScaling>(&c.rope->scaling)) {  // it has a factor for each pair
    c.rope->dim = 2 * static_cast<std::int64_t>(s->short_factor.size());
  }
  c.rope = make_rope(c.rope->theta, c.rope->dim, c.rope->layout, c.rope->scaling, c.rope->magnitude);
}

/// `config` with the `i`-th other value of the field `name` in all layers.
ModelConfig changed(ModelConfig config, const std::string& name, std::size_t i) {
  for_each_leaf(config, "", [&](const std::string& path, auto& member) {
    if (without_layer(path) != name) return;
    if (const auto values = others(member); i < values.size()) member = values[i];
  });
  for (AttentionConfig* a : every<AttentionConfig>(config.blocks)) {
    compute_frequencies(*a);
    if (a->alibi) a->alibi = make_alibi(a->n_heads, a->alibi->max_bias);
  }
  for (LatentAttentionConfig* a : every<LatentAttentionConfig>(config.blocks)) {
    a->rope = make_rope(a->rope.theta, a->rope.dim, a->rope.layout, a->rope.scaling, a->rope.magnitude);
    set_row(*a);
  }
  return config;
}

/// Changes of more than one field, or of some layers.
std::vector<Mutation> structural_mutations() {
  const auto last = [](auto change) {
    return [change](ModelConfig& c) {
      for (BlockConfig& block : c.blocks) change(block, block.sublayers.back());
    };
  };
  return {
      {"with_one_norm_for_both", last([](const BlockConfig& block, Sublayer& ffn) {
         if (!block.is_parallel()) return;
         ffn.norms.pre.reset();
         ffn.input = Sublayer::Input::previous;
       })},
      {"with_window_everywhere",
       [](ModelConfig& c) {
         std::optional<std::int64_t> window;
         for (const AttentionConfig* a : every<AttentionConfig>(c.blocks)) window = a->window ? a->window : window;
         for (AttentionConfig* a : every<AttentionConfig>(c.blocks)) a->window = window;
       }},
      {"with_one_rope_for_all_layers",
       [](ModelConfig& c) {
         const std::vector<AttentionConfig*> all = every<AttentionConfig>(c.blocks);
         for (AttentionConfig* a : all) a->rope = all.front()->rope;
       }},
      {"with_scale_by_head_dim",
       [](ModelConfig& c) {
         for (AttentionConfig* a : every<AttentionConfig>(c.blocks)) {
           a->score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a->head_dim)));
         }
       }},
      {"with_swapped_longrope_factors",
       [](ModelConfig& c) {
         for (AttentionConfig* a : every<AttentionConfig>(c.blocks)) {
           if (!a->rope) continue;
           if (auto* s = std::get_if<LongRopeScaling>(&a->rope->scaling)) std::swap(s->short_factor, s->long_factor);
           compute_frequencies(*a);
         }
       }},
  };
}

/// The parameters of `model` for `config`, with vectors truncated to its sizes; nullopt if one is missing or too short.
std::optional<ModelParams> params_for(const ModelConfig& config, const Model& model) {
  std::map<std::string, Param> present;
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string& name, const Shape&) { present[name] = param; });
  ModelParams params = empty_params(config);
  bool suffice = true;
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
    const auto it = present.find(name);
    const bool is_vector = shape.rank() == 1;
    suffice = suffice && it != present.end() &&
              (is_vector ? it->second.shape.count() >= shape.count() : it->second.shape == shape);
    if (!suffice) return;
    param = it->second;
    param.shape = shape;
    if (is_vector) param.view.cols = shape[0];
  });
  return suffice ? std::optional(params) : std::nullopt;
}

/// Whether the config is valid, and the model has its parameters.
bool can_run(const ModelConfig& config, const Model& model) {
  try {
    validate(config, "mutation");
  } catch (const Error&) {
    return false;
  }
  return params_for(config, model).has_value();
}

/// The config of the model with `n` other values of a field, as far as the model can run them.
std::vector<ModelConfig> possible_changes(const Model& model, const std::string& field, std::size_t n) {
  std::vector<ModelConfig> changes;
  for (std::size_t i = 0; i < n; ++i) {
    const ModelConfig other = changed(model.config(), field, i);
    if (other != model.config() && can_run(other, model)) changes.push_back(other);
  }
  return changes;
}

/// The largest difference of the logits of `config` from the golden's, divided by 1 + the largest.
float deviation(const ModelConfig& config, const Model& model, const std::vector<std::int32_t>& ids,
                const std::vector<float>& reference) {
  const RunOptions exact{.compute = Compute::f32};
  const std::vector<float> logits = logits_of(Model(config, *params_for(config, model), {}), ids, exact);
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    difference = std::max(difference, std::abs(reference[i] - logits[i]));
  }
  return difference / (1 + largest);
}

class EveryFieldOf : public testing::TestWithParam<std::string> {};

TEST_P(EveryFieldOf, IsDetected) {
  const std::string golden = GetParam();
  const Checkpoint checkpoint = golden_checkpoint(golden);
  const ModelConfig& config = checkpoint.model->config();
  const auto ids = golden_ids(golden);
  const auto values = golden_values(golden);
  if (!values.contains("hook_logits")) GTEST_SKIP() << "the golden has no logits";
  const std::vector<float>& reference = values.at("hook_logits").data;
  int tried = 0;
  for (const auto& [field, n] : changes_of(config)) {
    const std::vector<ModelConfig> changes = possible_changes(*checkpoint.model, field, n);
    float largest = 0;
    for (const ModelConfig& other : changes) {
      const float by = deviation(other, *checkpoint.model, ids, reference);
      largest = std::max(largest, std::isnan(by) ? INFINITY : by);
    }
    if (changes.empty()) continue;
    ++tried;
    EXPECT_EQ(largest > kDetected, !kUndetected.contains(golden + " " + field))
        << golden << " " << field << ": " << largest;
  }
  for (const Mutation& mutation : structural_mutations()) {
    ModelConfig other = config;
    mutation.change(other);
    if (other == config || !can_run(other, *checkpoint.model)) continue;
    EXPECT_GT(deviation(other, *checkpoint.model, ids, reference), kDetected) << golden << " " << mutation.name;
  }
  EXPECT_GE(tried, 8);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EveryFieldOf, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

/// Every structural mutation is tried on some golden, and so is every field, but those that decide shapes, and those
/// that no golden of a decoder has.
TEST(Mutations, AreEachAppliedToAGolden) {
  std::set<std::string> applied, all;
  for (const std::string& golden : golden_cases()) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const ModelConfig& config = checkpoint.model->config();
    for (const Mutation& mutation : structural_mutations()) {
      ModelConfig other = config;
      mutation.change(other);
      if (other != config && can_run(other, *checkpoint.model)) applied.insert(mutation.name);
    }
    for (const auto& [field, n] : changes_of(config)) {
      all.insert(field);
      if (!possible_changes(*checkpoint.model, field, n).empty()) applied.insert(field);
    }
  }
  for (const std::string& field : all) EXPECT_NE(applied.contains(field), kNotTried.contains(field)) << field;
  for (const Mutation& mutation : structural_mutations()) EXPECT_TRUE(applied.contains(mutation.name)) << mutation.name;
}

}  // namespace
}  // namespace vitrine::test
