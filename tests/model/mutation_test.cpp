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
#include "support/run.h"

namespace vitrine::test {
namespace {

constexpr float kDetected = 4e-5f;  // 20 times the tolerance of the goldens

/// Fields that the logits of a golden cannot depend on, by the ends of their paths.
const std::vector<std::string> kWithoutEffect = {
    "max_seq_len",   // a limit
    "untrained_id",  // of training
    "coef_limit",   "is_bias_trained",
    "has_head",      // a golden with logits has one
    "pad_token_id",  // no golden of a decoder has a context
    "frequency",     // computed from the others
    "slopes",
};

/// Changes that a golden cannot detect.
const std::set<std::string> kUndetected = {
    // Its prompt is shorter than the window.
    "phi3_short blocks.attention.window",
    "phi3_short blocks.attention.chunked",
    // A norm of attention's output takes the scale away.
    "gemma2 blocks.attention.value_scale",
    "gemma2_f16 blocks.attention.value_scale",
    "gemma3 blocks.attention.value_scale",
    "gemma3_tables blocks.attention.value_scale",
    "gemma3n blocks.attention.value_scale",
    "gemma4 blocks.attention.value_scale",
    "gemma4_moe blocks.attention.value_scale",
    // A norm of the projection does.
    "gemma3n per_layer.per_layer_projection_scale",
    // A norm of the sum does.
    "opt_350m blocks.residual_sum_scale",
    // Each has one of the lists for its prompt.
    "phi3_short blocks.attention.rope.scaling.longrope.long_factor",
    "phi3_long blocks.attention.rope.scaling.longrope.short_factor",
    // Each head rotates one pair, whose frequency is 1.
    "codegen blocks.attention.rope.layout",
    "codegen blocks.attention.rope.theta",
    // The weights of the chosen are not divided by their sum.
    "dots1 blocks.experts.router.eps",
    "dots1 blocks.experts.router.min",
    "olmoe blocks.experts.router.eps",
    "olmoe blocks.experts.router.min",
    "deepseek_v2 blocks.experts.router.eps",
    "deepseek_v2 blocks.experts.router.min",
    "qwen2_moe blocks.experts.router.eps",
    "qwen2_moe blocks.experts.router.min",
    "llama4 blocks.experts.router.eps",
    "llama4 blocks.experts.router.min",
    "llama4 blocks.experts.router.groups",         // the best expert is in the best group
    "llama4 blocks.attention.qk_norm.after_rope",  // a norm without a weight commutes with a rotation
    // Their sums are larger.
    "afmoe blocks.experts.router.min",
    "mimo_v2_flash blocks.experts.router.min",
    // Its sums are larger, and either rank of a group gives the same choice.
    "glm4_moe blocks.experts.router.min",
    "glm4_moe blocks.experts.router.group_rank",
    // A norm of the experts' sum follows.
    "gemma4_moe blocks.experts.renormalize",
    "gemma4_moe blocks.experts.router.eps",
    "gemma4_moe blocks.experts.router.min",
    "gemma4_moe blocks.experts.router.scale",
    "deepseek_v3 blocks.experts.router.min",
    "deepseek_v3 blocks.experts.router.group_rank",
    "deepseek_v2 blocks.experts.router.group_rank",
    // A norm of keys takes their scale away.
    "afmoe blocks.attention.key_scale",
    "dots1 blocks.attention.key_scale",
    "gemma3 blocks.attention.key_scale",
    "gemma3_tables blocks.attention.key_scale",
    "gemma3n blocks.attention.key_scale",
    "gemma4 blocks.attention.key_scale",
    "gemma4_moe blocks.attention.key_scale",
    "lfm2 blocks.attention.key_scale",
    "lfm2_moe blocks.attention.key_scale",
    "minimax_m2 blocks.attention.key_scale",
    "olmo_hybrid blocks.attention.key_scale",
    "qwen3 blocks.attention.key_scale",
    "qwen3_5 blocks.attention.key_scale",
    "qwen3_5_moe blocks.attention.key_scale",
    "qwen3_moe blocks.attention.key_scale",
    "qwen3_next blocks.attention.key_scale",
    "stablelm_parallel blocks.attention.key_scale",
    // A norm of the FFN's output does.
    "exaone4 blocks.mlp.ffn_out_scale",
    "gemma2 blocks.mlp.ffn_out_scale",
    "gemma2_f16 blocks.mlp.ffn_out_scale",
    "gemma3 blocks.mlp.ffn_out_scale",
    "gemma3_tables blocks.mlp.ffn_out_scale",
    "gemma3n blocks.mlp.ffn_out_scale",
    "gemma4 blocks.mlp.ffn_out_scale",
    "gemma4_moe blocks.experts.expert.ffn_out_scale",
    "gemma4_moe blocks.experts.shared.ffn_out_scale",
    "olmo2 blocks.mlp.ffn_out_scale",
    "olmo3 blocks.mlp.ffn_out_scale",
    // The stream is that before the block where a block has one sublayer.
    "falcon_mamba blocks.input",
    "mamba blocks.input",
    "mamba2 blocks.input",
    "mamba_short blocks.input",
    "nemotron_h blocks.input",
    // Nothing is rotated, or one pair, whose frequency is 1.
    "kimi_linear blocks.latent_attention.rope.layout",
    "kimi_linear blocks.latent_attention.rope.magnitude",
    "kimi_linear blocks.latent_attention.rope.theta",
    "kimi_linear blocks.latent_attention.rope_pairs",
    "qwen3_5 blocks.attention.rope.layout",
    "qwen3_5 blocks.attention.rope.theta",
    "qwen3_5_moe blocks.attention.rope.layout",
    "qwen3_5_moe blocks.attention.rope.theta",
    "qwen3_next blocks.attention.rope.layout",
    "qwen3_next blocks.attention.rope.theta",
    // The weights of the chosen are not divided by their sum, or either rank of a group gives the same choice.
    "jamba blocks.experts.router.eps",
    "jamba blocks.experts.router.min",
    "nemotron_h blocks.experts.router.group_rank",
    // A norm of attention's output takes the scale away.
    "olmo_hybrid blocks.attention.value_scale",
    // Its ramp begins and ends at whole pairs.
    "deepseek_v2 blocks.latent_attention.rope.scaling.yarn.truncate",
};

/// Fields that cannot be changed with the parameters of the goldens: sizes, and what none of them has.
const std::set<std::string> kNotTried = {
    "altup",
    "altup.n_streams",
    "altup.router_norm.bias",
    "blocks",
    "blocks.attention.head_dim",
    "blocks.attention.n_heads",
    "blocks.attention.n_kv_heads",
    "blocks.attention.qk_norm.norm.bias",
    "blocks.attention.v_norm.bias",
    "blocks.attention.v_norm.weight",
    "blocks.attention.v_norm.weight_offset",
    "blocks.attention.value_dim",
    "blocks.conv.d_conv",
    "blocks.conv.n_conv_channels",
    "blocks.delta_net.d_conv",
    "blocks.delta_net.decay_by_channel",
    "blocks.delta_net.gate_rank",
    "blocks.delta_net.n_state_groups",
    "blocks.delta_net.n_state_heads",
    "blocks.delta_net.state_key_dim",
    "blocks.delta_net.state_norm.bias",
    "blocks.delta_net.state_projections",
    "blocks.delta_net.state_value_dim",
    "blocks.experts.latent_experts",
    "blocks.mamba.d_conv",
    "blocks.mamba.d_inner",
    "blocks.mamba.d_state",
    "blocks.mamba.dt_rank",
    "blocks.mamba.step_norm.bias",
    "blocks.mamba2.d_conv",
    "blocks.mamba2.d_state",
    "blocks.mamba2.mixer_bias",
    "blocks.mamba2.mixer_out_bias",
    "blocks.mamba2.n_state_groups",
    "blocks.mamba2.n_state_heads",
    "blocks.mamba2.state_norm.bias",
    "blocks.mamba2.state_value_dim",
    "blocks.experts.expert.d_ff",
    "blocks.experts.expert.gate_cutoff",
    "blocks.experts.expert.xielu",
    "blocks.experts.experts_norm_after.bias",
    "blocks.experts.experts_norm_before.bias",
    "blocks.experts.n_experts",
    "blocks.experts.router_norm.bias",
    "blocks.experts.shared.clamped_swiglu",
    "blocks.experts.shared.d_ff",
    "blocks.experts.shared.ffn_bias",
    "blocks.experts.shared.gate_cutoff",
    "blocks.experts.shared.xielu",
    "blocks.experts.shared_norm_after.bias",
    "blocks.latent_attention.keys_apart",
    "blocks.latent_attention.kv_rank",
    "blocks.latent_attention.latent_norm.bias",
    "blocks.latent_attention.n_heads",
    "blocks.latent_attention.nope_dim",
    "blocks.latent_attention.q_rank",
    "blocks.latent_attention.rope.dim",
    "blocks.latent_attention.rope.reversed",
    "blocks.latent_attention.value_dim",
    "blocks.laurel.laurel_norm.bias",
    "blocks.laurel.laurel_rank",
    "blocks.mlp.clamped_swiglu",
    "blocks.mlp.d_ff",
    "blocks.norm_after.bias",
    "blocks.norm_of_sum_after.weight",
    "blocks.per_layer.per_layer_width",
    "context",
    "d_model",
    "embedding_norm.weight",
    "embedding_width",
    "head_width",
    "encoder",
    "first_position",
    "head_transform",
    "n_types",
    "per_layer",
    "per_layer.per_layer_norm.bias",
    "per_layer.per_layer_vocab_size",
    "pooler",
    "relative_bias",
    "sinusoid",
    "uncounted_id",
    "vocab_size",
};

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
  const std::vector<float> logits = logits_of(Model(config, *params_for(config, model), {}), ids);
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
