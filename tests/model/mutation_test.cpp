// Mutations: the goldens notice every single term. With one word of the config taken away, the logits leave the
// reference by far more than the tolerance of the golden tests.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/run.h"

namespace vitrine::test {
namespace {

constexpr float kNoticed = 4e-5f;  // 20 times the tolerance of the goldens

struct Mutation {
  std::string golden;
  std::string term;
  std::function<void(ModelConfig&)> remove;
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.golden << ", " << mutation.term; }

void for_blocks(ModelConfig& c, const std::function<void(BlockConfig&)>& change) {
  for (BlockConfig& block : c.blocks) change(block);
}

void change_norm(std::optional<NormConfig>& norm, const std::function<void(NormConfig&)>& change) {
  if (norm) change(*norm);
}

void for_norms(ModelConfig& c, const std::function<void(NormConfig&)>& change) {
  change(c.final_norm);
  for_blocks(c, [&](BlockConfig& b) {
    for (auto* norm : {&b.norms.attn_pre, &b.norms.attn_post, &b.norms.ffn_pre, &b.norms.ffn_post})
      change_norm(*norm, change);
    if (b.attention.qk_norm) change(b.attention.qk_norm->norm);
  });
}

Mutation drop_norm(const std::string& golden, const std::string& term, std::optional<NormConfig> BlockNorms::*norm) {
  return {golden, "without_" + term,
          [norm](ModelConfig& c) { for_blocks(c, [norm](BlockConfig& b) { (b.norms.*norm).reset(); }); }};
}

Mutation replace_activation(const std::string& golden, Activation activation) {
  return {golden, "with_another_activation", [activation](ModelConfig& c) {
            for_blocks(c, [activation](BlockConfig& b) { std::get<DenseConfig>(b.ffn).activation = activation; });
          }};
}

Mutation change_rope(const std::string& golden, const std::string& term,
                     const std::function<void(RopeConfig&)>& change) {
  return {golden, term, [change](ModelConfig& c) {
            for_blocks(c, [&](BlockConfig& b) {
              RopeConfig& r = *b.attention.rope;
              change(r);
              r = make_rope(r.theta, r.dim, r.layout, r.scaling, r.magnitude);
            });
          }};
}

template <class Change>
std::function<void(ModelConfig&)> blocks(Change change) {
  return [change](ModelConfig& c) { for_blocks(c, change); };
}

template <class Scaling>
Mutation change_scaling(const std::string& golden, const std::string& term,
                        const std::function<void(Scaling&)>& change) {
  return change_rope(golden, term, [change](RopeConfig& r) { change(std::get<Scaling>(r.scaling)); });
}

Mutation change_experts(const std::string& golden, const std::string& term,
                        const std::function<void(MoeConfig&)>& change) {
  return {golden, term, blocks([change](BlockConfig& b) {
            if (auto* moe = std::get_if<MoeConfig>(&b.ffn)) change(*moe);
          })};
}

/// The words of attention, norms and wiring that came with further families.
std::vector<Mutation> block_mutations() {
  const auto reads_attn_pre = [](BlockConfig& b) {
    b.norms.ffn_pre.reset();
    b.norms.ffn_reads_attn_pre = true;
  };
  const auto serial = [](BlockConfig& b) { b.residual = BlockConfig::Residual::serial; };
  return {
      {"qwen2_window", "without_window", blocks([](BlockConfig& b) { b.attention.window.reset(); })},
      {"qwen2_window", "with_window_everywhere", blocks([](BlockConfig& b) { b.attention.window = 5; })},
      {"qwen2_window", "without_qkv_bias", blocks([](BlockConfig& b) { b.attention.qkv_bias = false; })},
      {"mistral", "without_window", blocks([](BlockConfig& b) { b.attention.window.reset(); })},
      {"starcoder2", "without_window", blocks([](BlockConfig& b) { b.attention.window.reset(); })},
      {"qwen3", "without_qk_norm", blocks([](BlockConfig& b) { b.attention.qk_norm.reset(); })},
      {"gemma3", "without_qk_norm", blocks([](BlockConfig& b) { b.attention.qk_norm.reset(); })},
      {"gemma3", "without_plus_one_of_the_qk_norm",
       blocks([](BlockConfig& b) { b.attention.qk_norm->norm.weight_offset = 0; })},
      {"gemma3", "with_one_rope_for_all_layers",
       [](ModelConfig& c) { for_blocks(c, [&](BlockConfig& b) { b.attention.rope = c.blocks[0].attention.rope; }); }},
      {"gemma3_tables", "with_one_rope_for_all_layers",
       [](ModelConfig& c) { for_blocks(c, [&](BlockConfig& b) { b.attention.rope = c.blocks[0].attention.rope; }); }},
      {"gemma3_tables", "without_final_softcap", [](ModelConfig& c) { c.head.softcap.reset(); }},
      {"olmo2", "without_qk_norm", blocks([](BlockConfig& b) { b.attention.qk_norm.reset(); })},
      {"olmo2", "with_a_norm_of_each_head",
       blocks([](BlockConfig& b) { b.attention.qk_norm->over = QkNormConfig::Over::head; })},
      drop_norm("olmo2", "ln1_post", &BlockNorms::attn_post),
      drop_norm("olmo2", "ln2_post", &BlockNorms::ffn_post),
      {"gpt_neox", "with_serial_residual", blocks(serial)},
      {"gpt_neox", "with_one_norm_for_both", blocks(reads_attn_pre)},
      {"gpt_neox_serial", "with_parallel_residual",
       blocks([](BlockConfig& b) { b.residual = BlockConfig::Residual::parallel; })},
      {"falcon_new", "with_serial_residual", blocks(serial)},
      {"falcon_new", "with_one_norm_for_both", blocks(reads_attn_pre)},
      {"falcon", "with_ffn_on_the_bare_stream", blocks([](BlockConfig& b) { b.norms.ffn_reads_attn_pre = false; })},
      {"cohere", "with_ffn_on_the_bare_stream", blocks([](BlockConfig& b) { b.norms.ffn_reads_attn_pre = false; })},
      {"cohere", "with_rms_norms",
       [](ModelConfig& c) { for_norms(c, [](NormConfig& n) { n.kind = NormConfig::Kind::rms; }); }},
      {"cohere", "without_logit_scale", [](ModelConfig& c) { c.head.scale = 1; }},
      {"granite", "without_logit_scale", [](ModelConfig& c) { c.head.scale = 1; }},
      {"granite", "without_embedding_scale", [](ModelConfig& c) { c.embedding.scale = 1; }},
      {"granite", "without_residual_scale", blocks([](BlockConfig& b) { b.residual_scale = 1; })},
      {"granite", "with_scale_by_head_dim", blocks([](BlockConfig& b) { b.attention.score_scale = 0.5f; })},
      change_experts("mixtral", "without_renormalization", [](MoeConfig& c) { c.renormalize = false; }),
      change_experts("mixtral", "with_one_expert_less", [](MoeConfig& c) { --c.top_k; }),
      change_experts("qwen3_moe", "without_renormalization", [](MoeConfig& c) { c.renormalize = false; }),
      change_experts("qwen3_moe", "with_one_expert_more", [](MoeConfig& c) { ++c.top_k; }),
      change_experts("qwen2_moe", "with_renormalization", [](MoeConfig& c) { c.renormalize = true; }),
      change_experts("qwen2_moe", "without_the_shared_expert", [](MoeConfig& c) { c.shared.reset(); }),
      change_experts("qwen2_moe", "with_another_activation",
                     [](MoeConfig& c) { c.expert.activation = Activation::gelu_tanh; }),
  };
}

std::vector<Mutation> rope_mutations() {
  const auto no_scaling = [](RopeConfig& r) { r.scaling = {}; };
  const auto no_magnitude = [](RopeConfig& r) { r.magnitude = 1; };
  const auto swap_lists = [](ListedScaling& s) { std::swap(s.within, s.beyond); };
  return {
      change_rope("gpt_neox", "with_whole_heads_turned", [](RopeConfig& r) { r.dim = 16; }),
      change_rope("gpt_neox", "with_another_theta", [](RopeConfig& r) { r.theta = 10000; }),
      change_rope("gpt_neox_serial", "with_whole_heads_turned", [](RopeConfig& r) { r.dim = 8; }),
      change_rope("cohere", "with_halves", [](RopeConfig& r) { r.layout = RopeConfig::Layout::halves; }),
      change_rope("gemma3", "without_scaling", no_scaling),
      change_rope("llama_yarn_rope", "without_scaling", no_scaling),
      change_rope("llama_yarn_rope", "without_magnitude", no_magnitude),
      change_scaling<RampScaling>("llama_yarn_rope", "with_another_beta_slow",
                                  [](RampScaling& s) { s.beta_slow = 0.05; }),
      change_scaling<RampScaling>("llama_yarn_rope", "with_another_beta_fast", [](RampScaling& s) { s.beta_fast = 1; }),
      change_scaling<RampScaling>("llama_yarn_rope", "with_another_original_context",
                                  [](RampScaling& s) { s.original_max_seq_len = 64; }),
      change_scaling<RampScaling>("llama_yarn_mscale", "with_whole_pairs", [](RampScaling& s) { s.truncate = true; }),
      change_rope("llama_yarn_mscale", "without_magnitude", no_magnitude),
      change_rope("llama_dynamic_rope", "without_scaling", no_scaling),
      change_scaling<GrowingScaling>("llama_dynamic_rope", "with_another_factor",
                                     [](GrowingScaling& s) { s.factor = 2; }),
      change_rope("phi3_long", "without_scaling", no_scaling),
      change_rope("phi3_long", "without_magnitude", no_magnitude),
      change_scaling<ListedScaling>("phi3_long", "with_the_other_list", swap_lists),
      change_scaling<ListedScaling>("phi3_short", "with_the_other_list", swap_lists),
  };
}

std::vector<Mutation> mutations() {
  return {
      {"gemma2", "without_softcap", blocks([](BlockConfig& b) { b.attention.softcap.reset(); })},
      {"gemma2", "without_final_softcap", [](ModelConfig& c) { c.head.softcap.reset(); }},
      {"gemma2", "without_window", blocks([](BlockConfig& b) { b.attention.window.reset(); })},
      {"gemma2", "with_window_everywhere", blocks([](BlockConfig& b) { b.attention.window = 5; })},
      {"gemma2", "with_a_window_one_wider", blocks([](BlockConfig& b) {
         if (b.attention.window) ++*b.attention.window;
       })},
      {"gemma2", "without_score_scale", blocks([](BlockConfig& b) { b.attention.score_scale = 1; })},
      {"gemma2", "with_scale_by_head_dim",
       blocks([](BlockConfig& b) { b.attention.score_scale = static_cast<float>(1 / std::sqrt(8.0)); })},
      {"gemma2", "without_embedding_scale", [](ModelConfig& c) { c.embedding.scale = 1; }},
      {"gemma2", "without_plus_one", [](ModelConfig& c) { for_norms(c, [](NormConfig& n) { n.weight_offset = 0; }); }},
      {"gemma2", "without_plus_one_of_the_final_norm", [](ModelConfig& c) { c.final_norm.weight_offset = 0; }},
      drop_norm("gemma2", "ln1", &BlockNorms::attn_pre),
      drop_norm("gemma2", "ln1_post", &BlockNorms::attn_post),
      drop_norm("gemma2", "ln2", &BlockNorms::ffn_pre),
      drop_norm("gemma2", "ln2_post", &BlockNorms::ffn_post),
      drop_norm("llama_mha", "ln1", &BlockNorms::attn_pre),
      drop_norm("llama_mha", "ln2", &BlockNorms::ffn_pre),
      drop_norm("gpt2", "ln1", &BlockNorms::attn_pre),
      replace_activation("gemma_mqa", Activation::gelu_erf),
      replace_activation("gemma_mha_exact_key", Activation::gelu_erf),
      replace_activation("llama_mha", Activation::gelu_tanh),
      replace_activation("gpt2", Activation::gelu_erf),
      replace_activation("gpt2_variant", Activation::gelu_tanh),
      replace_activation("gpt2_relu", Activation::silu),
      {"gpt2", "with_rms_norms",
       [](ModelConfig& c) { for_norms(c, [](NormConfig& n) { n.kind = NormConfig::Kind::rms; }); }},
      {"gpt2", "without_positions", [](ModelConfig& c) { c.embedding.learned_positions = false; }},
      {"gpt2", "without_qkv_bias", blocks([](BlockConfig& b) { b.attention.qkv_bias = false; })},
      {"gpt2_variant", "with_another_eps", [](ModelConfig& c) { for_norms(c, [](NormConfig& n) { n.eps = 1e-5f; }); }},
      {"gpt2_variant", "without_the_layers_scale",
       blocks([](BlockConfig& b) { b.attention.score_scale = static_cast<float>(1 / std::sqrt(8.0)); })},
      change_rope("llama_mha", "with_interleaved_pairs",
                  [](RopeConfig& r) { r.layout = RopeConfig::Layout::interleaved; }),
      change_rope("llama_gqa_bf16_sharded", "with_another_theta", [](RopeConfig& r) { r.theta = 10000; }),
      change_rope("llama3_rope", "without_scaling", [](RopeConfig& r) { r.scaling = {}; }),
      change_rope("llama_linear_rope", "without_scaling", [](RopeConfig& r) { r.scaling = {}; }),
      {"llama_mha", "without_rope", blocks([](BlockConfig& b) { b.attention.rope.reset(); })},
  };
}

std::vector<Mutation> all_mutations() {
  std::vector<Mutation> all = mutations();
  for (const auto& more : {block_mutations(), rope_mutations()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

class Mutated : public testing::TestWithParam<Mutation> {};

/// The golden's parameters under a config from which a term is gone: those that the config no longer names are dropped.
TEST_P(Mutated, IsNoticed) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam().golden);
  const auto ids = golden_ids(GetParam().golden);
  const std::vector<float> reference = golden_values(GetParam().golden).at("hook_logits").data;
  ModelConfig config = checkpoint.model->config();
  GetParam().remove(config);
  ModelParams params = checkpoint.model->params();
  if (!config.blocks[0].attention.qkv_bias) {
    for (BlockParams& b : params.blocks) b.attention.wq.bias = b.attention.wk.bias = b.attention.wv.bias = {};
  }
  const Model mutated(config, params, {});
  const std::vector<float> logits = logits_of(mutated, ids);
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    difference = std::max(difference, std::abs(reference[i] - logits[i]));
  }
  EXPECT_GT(difference / (1 + largest), kNoticed);
}

INSTANTIATE_TEST_SUITE_P(Terms, Mutated, testing::ValuesIn(all_mutations()),
                         [](const auto& param_info) { return param_info.param.golden + "_" + param_info.param.term; });

}  // namespace
}  // namespace vitrine::test
