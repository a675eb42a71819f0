// Mutation tests: every golden detects a change of any field of its config. With the field changed or removed, the
// logits differ from the reference by far more than the tolerance of the golden tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "support/run.h"

namespace vitrine::test {
namespace {

constexpr float kDetected = 4e-5f;  // 20 times the tolerance of the goldens

/// A change of a config. It is applied to all goldens whose config it changes and that have the necessary parameters.
struct Mutation {
  std::string name;
  std::function<void(ModelConfig&)> change;
};

/// Mutations that a golden cannot detect.
const std::set<std::string> kUndetected = {
    "phi3_short without_window",  // its prompt is shorter than the window
    "phi3_short with_a_window_one_wider",
};

template <class Change>
Mutation blocks(const std::string& name, Change change) {
  return {name, [change](ModelConfig& c) {
            for (BlockConfig& block : c.blocks) change(block);
          }};
}

template <class Change>
Mutation attention(const std::string& name, Change change) {
  return blocks(name, [change](BlockConfig& b) { change(*find<AttentionConfig>(b)); });
}

template <class Change>
Mutation norms(const std::string& name, Change change) {
  return {name, [change](ModelConfig& c) {
            change(*c.final_norm);
            for (BlockConfig& b : c.blocks) {
              for (Sublayer& s : b.sublayers) {
                for (auto* norm : {&s.norms.pre, &s.norms.post}) {
                  if (*norm) change(**norm);
                }
              }
              AttentionConfig& a = *find<AttentionConfig>(b);
              if (a.qk_norm) change(a.qk_norm->norm);
            }
          }};
}

/// Of the first or the last sublayer.
Mutation without_norm(const std::string& name, bool first, std::optional<NormConfig> SublayerNorms::*norm) {
  return blocks("without_" + name, [first, norm](BlockConfig& b) {
    ((first ? b.sublayers.front() : b.sublayers.back()).norms.*norm).reset();
  });
}

template <class Change>
Mutation rope(const std::string& name, Change change) {
  return attention(name, [change](AttentionConfig& c) {
    if (!c.rope) return;
    RopeConfig& r = *c.rope;
    change(r, c);
    r = make_rope(r.theta, r.dim, r.layout, r.scaling, r.magnitude);
  });
}

template <class Scaling, class Change>
Mutation scaling(const std::string& name, Change change) {
  return rope(name, [change](RopeConfig& r, const AttentionConfig&) {
    if (auto* s = std::get_if<Scaling>(&r.scaling)) change(*s);
  });
}

template <class Change>
Mutation experts(const std::string& name, Change change) {
  return blocks(name, [change](BlockConfig& b) {
    if (auto* moe = find<MoeConfig>(b)) change(*moe);
  });
}

template <class Change>
Mutation dense(const std::string& name, Change change) {
  return blocks(name, [change](BlockConfig& b) {
    if (auto* ffn = find<DenseConfig>(b)) change(*ffn);
    if (auto* moe = find<MoeConfig>(b)) change(moe->expert);
  });
}

Activation another(Activation activation) {
  if (activation == Activation::silu) return Activation::gelu_tanh;
  if (activation == Activation::gelu_tanh) return Activation::gelu_erf;
  return activation == Activation::gelu_erf ? Activation::gelu_tanh : Activation::silu;
}

std::vector<Mutation> model_mutations() {
  return {
      {"without_embedding_scale", [](ModelConfig& c) { c.embedding.scale = 1; }},
      {"without_positions", [](ModelConfig& c) { c.embedding.position_table = false; }},
      {"without_head_bias", [](ModelConfig& c) { c.head.bias = false; }},
      {"without_logit_scale", [](ModelConfig& c) { c.head.scale = 1; }},
      {"without_final_softcap", [](ModelConfig& c) { c.head.softcap.reset(); }},
      {"without_plus_one_of_the_final_norm", [](ModelConfig& c) { c.final_norm->weight_offset = 0; }},
      {"with_the_embedding_as_head", [](ModelConfig& c) { c.head.tied = true; }},
      norms("without_plus_one", [](NormConfig& n) { n.weight_offset = 0; }),
      norms("with_rms_norms", [](NormConfig& n) { n.kind = NormConfig::Kind::rms; }),
      norms("with_layer_norms", [](NormConfig& n) { n.kind = NormConfig::Kind::layer; }),
      norms("with_another_eps", [](NormConfig& n) { n.eps += 1e-2f; }),
      norms("without_bias_of_the_norms", [](NormConfig& n) { n.bias = false; }),
      blocks("without_weight_of_the_norms",
             [](BlockConfig& b) {
               for (Sublayer& s : b.sublayers) {
                 for (auto* norm : {&s.norms.pre, &s.norms.post}) {
                   if (*norm && !(*norm)->bias && (*norm)->weight_offset == 0) (*norm)->weight = false;
                 }
               }
             }),
      without_norm("ln1", true, &SublayerNorms::pre),
      without_norm("ln1_post", true, &SublayerNorms::post),
      without_norm("ln2", false, &SublayerNorms::pre),
      without_norm("ln2_post", false, &SublayerNorms::post),
      blocks("with_ffn_on_the_bare_stream",
             [](BlockConfig& b) {
               Sublayer& ffn = b.sublayers.back();
               if (ffn.input == Sublayer::Input::previous) ffn.input = Sublayer::Input::block;
             }),
      blocks("with_one_norm_for_both",
             [](BlockConfig& b) {
               if (!b.is_parallel()) return;
               b.sublayers.back().norms.pre.reset();
               b.sublayers.back().input = Sublayer::Input::previous;
             }),
      blocks("with_serial_residual", [](BlockConfig& b) { b.sublayers.back().input = Sublayer::Input::stream; }),
      blocks("with_parallel_residual",
             [](BlockConfig& b) {
               Sublayer& ffn = b.sublayers.back();
               if (ffn.input == Sublayer::Input::stream) ffn.input = Sublayer::Input::block;
             }),
      blocks("without_residual_scale",
             [](BlockConfig& b) {
               for (Sublayer& s : b.sublayers) s.scale = 1;
             }),
  };
}

std::vector<Mutation> attention_mutations() {
  using Over = QkNormConfig::Over;
  return {
      attention("without_window", [](AttentionConfig& c) { c.window.reset(); }),
      attention("with_a_window_one_wider",
                [](AttentionConfig& c) {
                  if (c.window) ++*c.window;
                }),
      {"with_window_everywhere",
       [](ModelConfig& c) {
         std::optional<std::int64_t> window;
         for (const AttentionConfig* a : every<AttentionConfig>(c.blocks)) window = a->window ? a->window : window;
         for (AttentionConfig* a : every<AttentionConfig>(c.blocks)) a->window = window;
       }},
      attention("without_softcap", [](AttentionConfig& c) { c.softcap.reset(); }),
      attention("without_score_scale", [](AttentionConfig& c) { c.score_scale = 1; }),
      attention("with_scale_by_head_dim",
                [](AttentionConfig& c) {
                  c.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim)));
                }),
      attention("without_qkv_clip", [](AttentionConfig& c) { c.qkv_clip.reset(); }),
      attention("with_another_qkv_clip",
                [](AttentionConfig& c) {
                  if (c.qkv_clip) *c.qkv_clip *= 1.25f;
                }),
      attention("without_qkv_bias", [](AttentionConfig& c) { c.qkv_bias = false; }),
      attention("without_out_bias", [](AttentionConfig& c) { c.out_bias = false; }),
      attention("without_qk_norm", [](AttentionConfig& c) { c.qk_norm.reset(); }),
      attention("with_a_norm_of_each_head",
                [](AttentionConfig& c) {
                  if (c.qk_norm) c.qk_norm->over = Over::head;
                }),
      attention("with_a_weight_for_each_head",
                [](AttentionConfig& c) {
                  if (c.qk_norm) c.qk_norm->over = Over::head_own_weight;
                }),
      attention("with_a_norm_of_all_heads",
                [](AttentionConfig& c) {
                  if (c.qk_norm) c.qk_norm->over = Over::all_heads;
                }),
      attention("with_the_qk_norm_on_the_other_side_of_rope",
                [](AttentionConfig& c) {
                  if (c.qk_norm && c.rope) c.qk_norm->after_rope = !c.qk_norm->after_rope;
                }),
      attention("without_plus_one_of_the_qk_norm",
                [](AttentionConfig& c) {
                  if (c.qk_norm) c.qk_norm->norm.weight_offset = 0;
                }),
      attention("without_rope", [](AttentionConfig& c) { c.rope.reset(); }),
      {"with_one_rope_for_all_layers",
       [](ModelConfig& c) {
         for (AttentionConfig* a : every<AttentionConfig>(c.blocks)) a->rope = attention_of(c, 0)->rope;
       }},
  };
}

std::vector<Mutation> rope_mutations() {
  using Layout = RopeConfig::Layout;
  return {
      rope("with_another_theta", [](RopeConfig& r, const AttentionConfig&) { r.theta *= 2; }),
      rope("with_the_other_layout",
           [](RopeConfig& r, const AttentionConfig&) {
             r.layout = r.layout == Layout::halves ? Layout::interleaved : Layout::halves;
           }),
      rope("with_whole_heads_rotated",
           [](RopeConfig& r, const AttentionConfig& c) {
             if (!std::holds_alternative<LongRopeScaling>(r.scaling)) r.dim = c.head_dim;
           }),
      rope("without_scaling", [](RopeConfig& r, const AttentionConfig&) { r.scaling = {}; }),
      rope("without_magnitude", [](RopeConfig& r, const AttentionConfig&) { r.magnitude = 1; }),
      scaling<LinearScaling>("with_another_factor", [](LinearScaling& s) { s.factor *= 2; }),
      scaling<DynamicNtkScaling>("with_another_ntk_factor", [](DynamicNtkScaling& s) { s.factor /= 2; }),
      scaling<Llama3Scaling>("with_another_llama3_factor", [](Llama3Scaling& s) { s.factor *= 2; }),
      scaling<Llama3Scaling>("with_another_low_frequency", [](Llama3Scaling& s) { s.low_freq_factor /= 2; }),
      scaling<Llama3Scaling>("with_another_high_frequency", [](Llama3Scaling& s) { s.high_freq_factor *= 2; }),
      scaling<Llama3Scaling>("with_another_llama3_context", [](Llama3Scaling& s) { s.original_max_seq_len *= 2; }),
      scaling<YarnScaling>("with_another_yarn_factor", [](YarnScaling& s) { s.factor *= 2; }),
      scaling<YarnScaling>("with_another_beta_slow", [](YarnScaling& s) { s.beta_slow /= 10; }),
      scaling<YarnScaling>("with_another_beta_fast", [](YarnScaling& s) { s.beta_fast /= 4; }),
      scaling<YarnScaling>("with_another_yarn_context", [](YarnScaling& s) { s.original_max_seq_len *= 4; }),
      scaling<YarnScaling>("with_the_other_truncation", [](YarnScaling& s) { s.truncate = !s.truncate; }),
      scaling<LongRopeScaling>("with_swapped_longrope_factors",
                               [](LongRopeScaling& s) { std::swap(s.short_factor, s.long_factor); }),
  };
}

std::vector<Mutation> ffn_mutations() {
  return {
      dense("with_another_activation", [](DenseConfig& c) { c.activation = another(c.activation); }),
      dense("without_the_gate", [](DenseConfig& c) { c.gated = false; }),
      dense("without_ffn_bias", [](DenseConfig& c) { c.bias = false; }),
      experts("with_the_other_normalization", [](MoeConfig& c) { c.renormalize = !c.renormalize; }),
      experts("with_one_expert_less", [](MoeConfig& c) { c.top_k = std::max<std::int64_t>(c.top_k - 1, 1); }),
      experts("with_one_expert_more", [](MoeConfig& c) { c.top_k = std::min(c.top_k + 1, c.n_experts); }),
      experts("without_the_shared_expert", [](MoeConfig& c) { c.shared.reset(); }),
      experts("with_another_activation_of_the_shared_expert",
              [](MoeConfig& c) {
                if (c.shared) c.shared->activation = another(c.shared->activation);
              }),
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
    suffice = suffice && it != present.end() && it->second.shape.count() >= shape.count();
    if (!suffice) return;
    param = it->second;
    param.shape = shape;
    if (shape.rank() == 1) param.view.cols = shape[0];
  });
  return suffice ? std::optional(params) : std::nullopt;
}

class EveryFieldOf : public testing::TestWithParam<std::string> {};

TEST_P(EveryFieldOf, IsDetected) {
  const std::string golden = GetParam();
  const Checkpoint checkpoint = golden_checkpoint(golden);
  const auto ids = golden_ids(golden);
  const auto values = golden_values(golden);
  if (!values.contains("hook_logits")) GTEST_SKIP() << "the golden has no logits";
  const std::vector<float>& reference = values.at("hook_logits").data;
  int tried = 0;
  for (const auto& mutations : {model_mutations(), attention_mutations(), rope_mutations(), ffn_mutations()}) {
    for (const Mutation& mutation : mutations) {
      ModelConfig config = checkpoint.model->config();
      mutation.change(config);
      if (config == checkpoint.model->config()) continue;
      const std::optional<ModelParams> params = params_for(config, *checkpoint.model);
      if (!params) continue;
      ++tried;
      const std::vector<float> logits = logits_of(Model(config, *params, {}), ids);
      float largest = 0, difference = 0;
      for (std::size_t i = 0; i < reference.size(); ++i) {
        largest = std::max(largest, std::abs(reference[i]));
        difference = std::max(difference, std::abs(reference[i] - logits[i]));
      }
      const std::string what = golden + " " + mutation.name;
      EXPECT_EQ(difference / (1 + largest) > kDetected, !kUndetected.contains(what))
          << what << ": " << difference / (1 + largest);
    }
  }
  EXPECT_GE(tried, 8);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EveryFieldOf, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

/// Every mutation changes the config of some golden.
TEST(Mutations, AreEachAppliedToAGolden) {
  for (const auto& mutations : {model_mutations(), attention_mutations(), rope_mutations(), ffn_mutations()}) {
    for (const Mutation& mutation : mutations) {
      bool changes_one = false;
      for (const std::string& golden : golden_cases()) {
        const Checkpoint checkpoint = golden_checkpoint(golden);
        ModelConfig config = checkpoint.model->config();
        mutation.change(config);
        changes_one = changes_one || (config != checkpoint.model->config() && params_for(config, *checkpoint.model));
      }
      EXPECT_TRUE(changes_one) << mutation.name;
    }
  }
}

}  // namespace
}  // namespace vitrine::test
