// The parameters of a model: which tensors there are, with our names and shapes.
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
};

struct FfnParams {
  LinearParams w_gate, w_up, w_down;  ///< w_gate only where the FFN is gated.
};

struct BlockParams {
  NormParams attn_pre, attn_post, ffn_pre, ffn_post;  ///< Those that the config has.
  AttentionParams attention;
  FfnParams ffn;
};

struct ModelParams {
  Param embed;      ///< `[vocab_size, d_model]`
  Param pos_embed;  ///< `[max_seq_len, d_model]`, where positions are learned.
  std::vector<BlockParams> blocks;
  NormParams final_norm;
  LinearParams unembed;  ///< `[vocab_size, d_model]`; the weight absent where the head is tied.
};

/// The one list of parameters: calls visit(param, name, shape) for each that `config` has, in the order of a forward.
/// Loading, saving, counting and printing are visitors.
template <class Params, class Visit>
void for_each_param(const ModelConfig& config, Params& params, Visit&& visit) {
  const std::int64_t d = config.d_model;
  const auto linear = [&](auto& w, const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    visit(w.weight, name + ".weight", Shape{out, in});
    if (bias) visit(w.bias, name + ".bias", Shape{out});
  };
  const auto norm = [&](auto& w, const std::string& name, const std::optional<NormConfig>& c) {
    if (!c) return;
    visit(w.weight, name + ".weight", Shape{d});
    if (c->bias) visit(w.bias, name + ".bias", Shape{d});
  };

  visit(params.embed, "embed.weight", Shape{config.vocab_size, d});
  if (config.embedding.learned_positions) visit(params.pos_embed, "pos_embed.weight", Shape{config.max_seq_len, d});
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockConfig& c = config.blocks[i];
    const std::string at = "blocks." + std::to_string(i) + ".";
    auto& w = params.blocks[i];
    const std::int64_t d_q = c.attention.n_heads * c.attention.head_dim;
    const std::int64_t d_kv = c.attention.n_kv_heads * c.attention.head_dim;
    norm(w.attn_pre, at + "ln1", c.norms.attn_pre);
    linear(w.attention.wq, at + "attn.wq", d_q, d, c.attention.qkv_bias);
    linear(w.attention.wk, at + "attn.wk", d_kv, d, c.attention.qkv_bias);
    linear(w.attention.wv, at + "attn.wv", d_kv, d, c.attention.qkv_bias);
    linear(w.attention.wo, at + "attn.wo", d, d_q, c.attention.out_bias);
    norm(w.attn_post, at + "ln1_post", c.norms.attn_post);
    norm(w.ffn_pre, at + "ln2", c.norms.ffn_pre);
    const auto& ffn = std::get<DenseConfig>(c.ffn);
    if (ffn.gated) linear(w.ffn.w_gate, at + "mlp.w_gate", ffn.d_ff, d, ffn.bias);
    linear(w.ffn.w_up, at + "mlp.w_up", ffn.d_ff, d, ffn.bias);
    linear(w.ffn.w_down, at + "mlp.w_down", d, ffn.d_ff, ffn.bias);
    norm(w.ffn_post, at + "ln2_post", c.norms.ffn_post);
  }
  norm(params.final_norm, "ln_final", config.final_norm);
  if (!config.head.tied) visit(params.unembed.weight, "unembed.weight", Shape{config.vocab_size, d});
  if (config.head.bias) visit(params.unembed.bias, "unembed.bias", Shape{config.vocab_size});
}

}  // namespace vitrine
