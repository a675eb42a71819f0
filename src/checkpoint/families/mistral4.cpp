// Mistral 4: latent attention whose queries are scaled by their position, and experts in every layer with a softmax
// router, whose groups are ranked by the sum of their two largest scores. Sources: Mistral AI 2026; transformers,
// models/mistral4.
#include <cmath>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {
namespace {

MoeConfig read_mistral4_experts(ConfigReader& c, const ModelConfig& model) {
  MoeConfig moe = read_experts(c, model,
                               {.n_experts_key = "n_routed_experts",
                                .n_experts = 128,
                                .top_k = 4,
                                .d_ff_key = "moe_intermediate_size",
                                .d_ff = 2048,
                                .n_shared_key = "n_shared_experts",
                                .n_shared = 1});
  moe.renormalize = c.flag_or("norm_topk_prob", true);
  moe.router.groups = c.size_or("n_group", 1);
  moe.router.top_groups = c.size_or("topk_group", 1);
  if (moe.router.groups > 1) moe.router.group_rank = RouterConfig::GroupRank::two_largest;
  moe.router.scale = static_cast<float>(c.number_or("routed_scaling_factor", 1));
  moe.router.eps = moe.renormalize ? 1e-20f : 0.0f;
  return moe;
}

/// The table of RoPE repeats which part of a head rotates.
void check_fraction(ConfigReader& c, const LatentAttentionConfig& attention) {
  const auto size = static_cast<double>(attention.query_dim());
  const double fraction =
      c.object("rope_parameters")->number_or("partial_rotary_factor", static_cast<double>(attention.rope.dim) / size);
  if (std::lround(fraction * size) == attention.rope.dim) return;
  throw BadCheckpoint(c.where(), "rope_parameters: partial_rotary_factor: expected {} of {} elements, got {}",
                      attention.rope.dim, size, fraction);
}

}  // namespace

Family mistral4_family() {
  const auto read = [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 1048576};
    keys.rope.has_query_scale = keys.rope.ignores_fraction = true;
    const LatentKeys latent{.rank = 256, .q_rank = 1024, .nope_dim = 64, .rope_dim = 64, .value_dim = 128};
    ModelConfig model = read_latent_decoder(c, keys, latent);
    const auto scale = read_query_scale(c);
    for (LatentAttentionConfig* a : every<LatentAttentionConfig>(model.blocks)) {
      check_fraction(c, *a);
      a->query_scale = scale;
    }
    put_experts(model, read_mistral4_experts(c, model), read_first_sparse_layer(c, 0));
    return model;
  };
  Family family = decoder_family("mistral4", "Mistral4ForCausalLM", read);
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.gate", {"blocks.{l}.mlp.router"}}});
  add_stacked_experts(family, "{p}layers.{l}.mlp.experts.gate_up_proj", "{p}layers.{l}.mlp.experts.down_proj");
  add_shared_experts(family);
  add_latent_attention(family);
  for (const Family::Key& key : {Family::Key{"n_experts", "n_routed_experts"},
                                 {"top_k", "num_experts_per_tok"},
                                 {"d_ff_expert", "moe_intermediate_size"}}) {
    family.keys.push_back(key);
  }
  family.tasks = decoder_classes(11);
  return family;
}

}  // namespace vitrine
