// The parameters of a model, with our names and shapes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "ops/additive.h"
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

struct RecurrentParams {
  CellParams forward, reverse;    ///< `reverse` if the layer reads both directions.
  LinearParams bridge, bridge_c;  ///< `[d_hidden, that of the encoder's states]`, if the bridge is linear.
  AdditiveParams attention;       ///< If the layer has additive attention.
};

struct SublayerNormParams {
  NormParams pre, post, sum;  ///< Only the norms of the config.
};

struct BlockParams {
  SublayerNormParams attn_norms, cross_attn_norms, ffn_norms;
  AttentionParams attention;
  AttentionParams cross_attention;  ///< If the config has cross-attention.
  FfnParams ffn;                    ///< If the config has a dense FFN.
  MoeParams moe;                    ///< If the config has a mixture of experts.
  RecurrentParams recurrent;        ///< Of a recurrent layer.
  LinearParams dense;               ///< `[d_hidden, in]`, of a dense layer.
};

struct StackParams {
  std::shared_ptr<SinusoidRows> sinusoids;  ///< Not a parameter: set by the model, if its positions are computed.
  Param embed;       ///< `[vocab_size, d_model]`; absent in an encoder that shares that of the decoder.
  Param pos_embed;   ///< `[first_position + max_seq_len, d_model]`, if there is a table of positions.
  Param type_embed;  ///< `[n_types, d_model]`, if tokens have types.
  NormParams embed_norm;
  Param rel_bias;  ///< `[n_buckets, n_heads]`, if there is a relative bias.
  std::vector<BlockParams> blocks;
  NormParams final_norm;
};

struct ModelParams : StackParams {
  StackParams encoder;      ///< If the config has an encoder.
  LinearParams pooler;      ///< `[d_model, d_model]`, if the config has a pooler.
  LinearParams nsp_head;    ///< `[2, d_model]`, if it predicts the next sentence.
  LinearParams head_dense;  ///< `[d_model, d_model]`, if the head has a transform.
  NormParams head_norm;
  LinearParams unembed;  ///< `[vocab_size, d_model]`; the weight is absent if the head is tied.
};

/// Unset parameters for `config`, for for_each_param to visit.
inline ModelParams empty_params(const ModelConfig& config) {
  const auto resize = [](StackParams& params, const StackConfig& stack) {
    params.blocks.resize(stack.blocks.size());
    for (std::size_t i = 0; i < stack.blocks.size(); ++i) {
      const auto* moe = std::get_if<MoeConfig>(&stack.blocks[i].ffn);
      if (moe != nullptr) params.blocks[i].moe.experts.resize(static_cast<std::size_t>(moe->n_experts));
    }
  };
  ModelParams params;
  resize(params, config);
  if (config.encoder) resize(params.encoder, *config.encoder);
  return params;
}

/// The list of parameters, in the order of a forward. Calls visit(param, name, shape) for each of them, and, if the
/// visitor has this function, visit.norm(name, config) for each norm.
template <class Visit>
class ParamLister {
 public:
  explicit ParamLister(Visit& visit) : visit_(visit) {}

  template <class Weights>
  void linear(Weights& w, const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    visit_(w.weight, name + ".weight", Shape{out, in});
    if (bias) visit_(w.bias, name + ".bias", Shape{out});
  }

  template <class Weights>
  void norm(Weights& w, const std::string& name, const std::optional<NormConfig>& c, std::int64_t width) {
    if (!c) return;
    if constexpr (requires { visit_.norm(name, *c); }) visit_.norm(name, *c);
    visit_(w.weight, name + ".weight", Shape{width});
    if (c->bias) visit_(w.bias, name + ".bias", Shape{width});
  }

  /// The tables and the norm of an embedding. `prefix` is "encoder.", "decoder." or "".
  template <class Weights>
  void embedding(const StackConfig& c, Weights& w, const std::string& prefix) {
    const std::int64_t d = c.d_model;
    if (c.embedding.position_table) {
      visit_(w.pos_embed, prefix + "pos_embed.weight", Shape{c.embedding.first_position + c.max_seq_len, d});
    }
    if (c.embedding.n_types > 0) visit_(w.type_embed, prefix + "type_embed.weight", Shape{c.embedding.n_types, d});
    norm(w.embed_norm, prefix + "ln_embed", c.embedding.norm, d);
  }

  /// The blocks of a stack, after its embedding. `source`: the encoder that the stack reads; null: none.
  template <class Weights>
  void blocks(const StackConfig& c, Weights& w, const std::string& prefix, const StackConfig* source) {
    if (c.relative_bias) {
      visit_(w.rel_bias, prefix + "rel_bias.weight",
             Shape{c.relative_bias->n_buckets, c.blocks.front().attention().n_heads});
    }
    for (std::size_t i = 0; i < c.blocks.size(); ++i) {
      const std::string layer = std::to_string(i);
      if (const RecurrentConfig* const own = c.blocks[i].recurrent()) {
        recurrent(*own, w.blocks[i].recurrent, prefix, layer, c.width_before(i), source);
      } else if (const auto* layer_config = std::get_if<PerceptronConfig>(&c.blocks[i].mixer)) {
        linear(w.blocks[i].dense, prefix + "dense." + layer, layer_config->d_hidden, c.width_before(i), true);
      } else {
        const std::string at = (prefix.empty() ? "blocks." : prefix) + layer + ".";
        block(c.blocks[i], w.blocks[i], at, c.d_model, source != nullptr ? source->output_width() : 0);
      }
    }
    norm(w.final_norm, prefix + "ln_final", c.final_norm, c.output_width());
  }

 private:
  /// Names and shapes are those of torch.nn's modules.
  template <class Weights>
  void cell(const CellConfig& c, Weights& w, const std::string& prefix, const std::string& suffix, std::int64_t d_in) {
    const std::int64_t rows = c.n_gates() * c.d_hidden;
    visit_(w.input.weight, prefix + "weight_ih_" + suffix, Shape{rows, d_in});
    visit_(w.state.weight, prefix + "weight_hh_" + suffix, Shape{rows, c.d_hidden});
    visit_(w.input.bias, prefix + "bias_ih_" + suffix, Shape{rows});
    visit_(w.state.bias, prefix + "bias_hh_" + suffix, Shape{rows});
  }

  template <class Weights>
  void recurrent(const RecurrentConfig& c, Weights& w, const std::string& prefix, const std::string& layer,
                 std::int64_t d_in, const StackConfig* source) {
    if (c.d_attention) {
      d_in += source->output_width();
      linear(w.attention.query, prefix + "attn.query", *c.d_attention, c.d_hidden, false);
      linear(w.attention.key, prefix + "attn.key", *c.d_attention, source->output_width(), false);
      linear(w.attention.v, prefix + "attn.v", 1, *c.d_attention, false);
    }
    if (c.bridge == RecurrentConfig::Bridge::linear) {
      const std::int64_t d_states = source->blocks[std::stoul(layer)].recurrent()->width();
      linear(w.bridge, prefix + "bridge." + layer, c.d_hidden, d_states, true);
      if (c.has_c()) linear(w.bridge_c, prefix + "bridge_c." + layer, c.d_hidden, d_states, true);
    }
    cell(c, w.forward, prefix + "rnn.", "l" + layer, d_in);
    if (c.bidirectional) cell(c, w.reverse, prefix + "rnn.", "l" + layer + "_reverse", d_in);
  }

  template <class Weights>
  void block(const BlockConfig& c, Weights& w, const std::string& at, std::int64_t d, std::int64_t d_source) {
    norm(w.attn_norms.pre, at + "ln1", c.norms.attn.pre, d);
    attention(c.attention(), w.attention, at + "attn", d, d);
    norm(w.attn_norms.post, at + "ln1_post", c.norms.attn.post, d);
    norm(w.attn_norms.sum, at + "ln1", c.norms.attn.sum, d);
    if (c.cross_attention) {
      norm(w.cross_attn_norms.pre, at + "ln2", c.norms.cross_attn.pre, d);
      attention(*c.cross_attention, w.cross_attention, at + "cross_attn", d, d_source);
      norm(w.cross_attn_norms.post, at + "ln2_post", c.norms.cross_attn.post, d);
      norm(w.cross_attn_norms.sum, at + "ln2", c.norms.cross_attn.sum, d);
    }
    const std::string ln = at + (c.cross_attention ? "ln3" : "ln2");
    norm(w.ffn_norms.pre, ln, c.norms.ffn.pre, d);
    if (const auto* moe = std::get_if<MoeConfig>(&c.ffn)) {
      experts(*moe, w.moe, at + "mlp.", d);
    } else {
      dense(std::get<DenseConfig>(c.ffn), w.ffn, at + "mlp", d);
    }
    norm(w.ffn_norms.post, ln + "_post", c.norms.ffn.post, d);
    norm(w.ffn_norms.sum, ln, c.norms.ffn.sum, d);
  }

  /// Keys and values are computed from rows of `d_keys` elements.
  template <class Weights>
  void attention(const AttentionConfig& c, Weights& w, const std::string& at, std::int64_t d, std::int64_t d_keys) {
    const std::int64_t d_q = c.n_heads * c.head_dim, d_kv = c.n_kv_heads * c.head_dim;
    linear(w.wq, at + ".wq", d_q, d, c.qkv_bias);
    linear(w.wk, at + ".wk", d_kv, d_keys, c.qkv_bias);
    linear(w.wv, at + ".wv", d_kv, d_keys, c.qkv_bias);
    if (const auto& qk = c.qk_norm) {
      const bool shares_weight = qk->over == QkNormConfig::Over::head;
      norm(w.q_norm, at + ".q_norm", qk->norm, shares_weight ? c.head_dim : d_q);
      norm(w.k_norm, at + ".k_norm", qk->norm, shares_weight ? c.head_dim : d_kv);
    }
    linear(w.wo, at + ".wo", d, d_q, c.out_bias);
  }

  template <class Weights>
  void dense(const DenseConfig& c, Weights& w, const std::string& at, std::int64_t d) {
    if (c.gated) linear(w.w_gate, at + ".w_gate", c.d_ff, d, c.bias);
    linear(w.w_up, at + ".w_up", c.d_ff, d, c.bias);
    linear(w.w_down, at + ".w_down", d, c.d_ff, c.bias);
  }

  template <class Weights>
  void experts(const MoeConfig& c, Weights& w, const std::string& at, std::int64_t d) {
    linear(w.router, at + "router", c.n_experts, d, false);
    for (std::size_t e = 0; e < w.experts.size(); ++e) {
      dense(c.expert, w.experts[e], at + "experts." + std::to_string(e), d);
    }
    if (!c.shared) return;
    dense(*c.shared, w.shared, at + "shared", d);
    linear(w.shared_gate, at + "shared_gate", 1, d, false);
  }

  Visit& visit_;
};

/// Calls visit(param, name, shape) for each parameter of `config`, in the order of a forward. Loading, saving, counting
/// and printing are visitors.
template <class Params, class Visit>
void for_each_param(const ModelConfig& config, Params& params, Visit&& visit) {
  ParamLister lister(visit);
  const std::int64_t d = config.d_model;
  const std::string own = config.encoder ? "decoder." : "";
  if (config.shared_embedding) visit(params.embed, "embed.weight", Shape{config.vocab_size, d});
  if (const auto& c = config.encoder) {
    if (!config.shared_embedding) {
      visit(params.encoder.embed, "encoder.embed.weight", Shape{c->vocab_size, c->d_model});
    }
    lister.embedding(*c, params.encoder, "encoder.");
    lister.blocks(*c, params.encoder, "encoder.", nullptr);
  }
  if (!config.shared_embedding) visit(params.embed, own + "embed.weight", Shape{config.vocab_size, d});
  lister.embedding(config, params, own);
  lister.blocks(config, params, own, config.encoder ? &*config.encoder : nullptr);
  const std::int64_t width = config.output_width();
  if (config.pooler) lister.linear(params.pooler, "pooler.dense", width, width, true);
  if (config.pooler && config.pooler->next_sentence) lister.linear(params.nsp_head, "nsp_head", 2, width, true);
  if (!config.has_head) return;
  if (config.head.transform) {
    lister.linear(params.head_dense, "head.dense", width, width, true);
    lister.norm(params.head_norm, "head.ln", config.head.transform->norm, width);
  }
  if (!config.head.tied) visit(params.unembed.weight, "unembed.weight", Shape{config.vocab_size, width});
  if (config.head.bias) visit(params.unembed.bias, "unembed.bias", Shape{config.vocab_size});
}

}  // namespace vitrine
