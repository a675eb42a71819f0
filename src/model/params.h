// The parameters of a model, with our names and shapes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace vitrine {

struct AttentionParams {
  LinearParams wq, wk, wv, wo;
  NormParams q_norm, k_norm;  ///< If the config has qk_norm.
};

struct FfnParams {
  LinearParams w_gate, w_up, w_down;  ///< w_gate only if the FFN is gated.
};

struct MoeParams {
  LinearParams router;  ///< `[n_experts, d_model]`
  std::vector<FfnParams> experts;
  FfnParams shared;          ///< If there is a shared expert.
  LinearParams shared_gate;  ///< `[1, d_model]`, if there is a shared expert.
};

struct BlockParams {
  NormParams attn_pre, attn_post, attn_sum, ffn_pre, ffn_post, ffn_sum;  ///< Only the norms of the config.
  AttentionParams attention;
  FfnParams ffn;  ///< If the config has a dense FFN.
  MoeParams moe;  ///< If the config has a mixture of experts.
};

struct ModelParams {
  Param embed;       ///< `[vocab_size, d_model]`
  Param pos_embed;   ///< `[first_position + max_seq_len, d_model]`, if positions are learned.
  Param type_embed;  ///< `[n_types, d_model]`, if tokens have types.
  NormParams embed_norm;
  std::vector<BlockParams> blocks;
  NormParams final_norm;
  LinearParams head_dense;  ///< `[d_model, d_model]`, if the head has a transform.
  NormParams head_norm;
  LinearParams unembed;  ///< `[vocab_size, d_model]`; the weight is absent if the head is tied.
};

/// Unset parameters for `config`, for for_each_param to visit.
inline ModelParams empty_params(const ModelConfig& config) {
  ModelParams params;
  params.blocks.resize(config.blocks.size());
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    if (const auto* moe = std::get_if<MoeConfig>(&config.blocks[i].ffn)) {
      params.blocks[i].moe.experts.resize(static_cast<std::size_t>(moe->n_experts));
    }
  }
  return params;
}

/// The list of parameters: calls visit(param, name, shape) for each parameter of `config`, in the order of a forward.
/// Loading, saving, counting and printing are visitors.
template <class Params, class Visit>
void for_each_param(const ModelConfig& config, Params& params, Visit&& visit) {
  const std::int64_t d = config.d_model;
  const auto linear = [&](auto& w, const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    visit(w.weight, name + ".weight", Shape{out, in});
    if (bias) visit(w.bias, name + ".bias", Shape{out});
  };
  const auto norm_of = [&](auto& w, const std::string& name, const std::optional<NormConfig>& c, std::int64_t width) {
    if (!c) return;
    visit(w.weight, name + ".weight", Shape{width});
    if (c->bias) visit(w.bias, name + ".bias", Shape{width});
  };
  const auto norm = [&](auto& w, const std::string& name, const std::optional<NormConfig>& c) {
    norm_of(w, name, c, d);
  };
  const auto dense = [&](auto& w, const std::string& name, const DenseConfig& c) {
    if (c.gated) linear(w.w_gate, name + ".w_gate", c.d_ff, d, c.bias);
    linear(w.w_up, name + ".w_up", c.d_ff, d, c.bias);
    linear(w.w_down, name + ".w_down", d, c.d_ff, c.bias);
  };

  visit(params.embed, "embed.weight", Shape{config.vocab_size, d});
  if (config.embedding.learned_positions) {
    visit(params.pos_embed, "pos_embed.weight", Shape{config.embedding.first_position + config.max_seq_len, d});
  }
  if (config.embedding.n_types > 0) visit(params.type_embed, "type_embed.weight", Shape{config.embedding.n_types, d});
  norm(params.embed_norm, "ln_embed", config.embedding.norm);
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockConfig& c = config.blocks[i];
    const AttentionConfig& attention = c.attention();
    const std::string at = "blocks." + std::to_string(i) + ".";
    auto& w = params.blocks[i];
    const std::int64_t d_q = attention.n_heads * attention.head_dim;
    const std::int64_t d_kv = attention.n_kv_heads * attention.head_dim;
    norm(w.attn_pre, at + "ln1", c.norms.attn_pre);
    linear(w.attention.wq, at + "attn.wq", d_q, d, attention.qkv_bias);
    linear(w.attention.wk, at + "attn.wk", d_kv, d, attention.qkv_bias);
    linear(w.attention.wv, at + "attn.wv", d_kv, d, attention.qkv_bias);
    if (const auto& qk = attention.qk_norm) {
      const bool shares_weight = qk->over == QkNormConfig::Over::head;
      norm_of(w.attention.q_norm, at + "attn.q_norm", qk->norm, shares_weight ? attention.head_dim : d_q);
      norm_of(w.attention.k_norm, at + "attn.k_norm", qk->norm, shares_weight ? attention.head_dim : d_kv);
    }
    linear(w.attention.wo, at + "attn.wo", d, d_q, attention.out_bias);
    norm(w.attn_post, at + "ln1_post", c.norms.attn_post);
    norm(w.attn_sum, at + "ln1", c.norms.attn_sum);
    norm(w.ffn_pre, at + "ln2", c.norms.ffn_pre);
    if (const auto* moe = std::get_if<MoeConfig>(&c.ffn)) {
      linear(w.moe.router, at + "mlp.router", moe->n_experts, d, false);
      for (std::size_t e = 0; e < w.moe.experts.size(); ++e) {
        dense(w.moe.experts[e], at + "mlp.experts." + std::to_string(e), moe->expert);
      }
      if (moe->shared) dense(w.moe.shared, at + "mlp.shared", *moe->shared);
      if (moe->shared) linear(w.moe.shared_gate, at + "mlp.shared_gate", 1, d, false);
    } else {
      dense(w.ffn, at + "mlp", std::get<DenseConfig>(c.ffn));
    }
    norm(w.ffn_post, at + "ln2_post", c.norms.ffn_post);
    norm(w.ffn_sum, at + "ln2", c.norms.ffn_sum);
  }
  norm(params.final_norm, "ln_final", config.final_norm);
  if (config.head.transform) {
    linear(params.head_dense, "head.dense", d, d, true);
    norm(params.head_norm, "head.ln", config.head.transform->norm);
  }
  if (!config.head.tied) visit(params.unembed.weight, "unembed.weight", Shape{config.vocab_size, d});
  if (config.head.bias) visit(params.unembed.bias, "unembed.bias", Shape{config.vocab_size});
}

}  // namespace vitrine
