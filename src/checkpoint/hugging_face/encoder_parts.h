// The parts that BERT and its relatives share.
#pragma once

#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

/// config.json's keys of the sizes, and a default.
struct EncoderKeys {
  std::string_view d_model, n_layers, n_heads, d_ff, activation;
  std::int64_t pad_id = 0;  ///< The default of pad_token_id.
  bool has_pooler = true;   ///< Whether the model without a head has a pooler.
};

/// Reads what all of them share: attention in both directions, biases, LayerNorm of the embedding and of the residual
/// sums, learned positions, and a head with a transform, which is tied to the embedding.
ModelConfig read_encoder(ConfigReader& c, const EncoderKeys& keys, double eps, Activation head_activation);
/// Reads BERT's config. `head_activation`, if given, replaces hidden_act in the head. If it `may_have_alibi`, the
/// caller reads what position_embedding_type "alibi" changes.
ModelConfig read_bert(ConfigReader& c, std::optional<Activation> head_activation = std::nullopt,
                      std::int64_t pad_id = 0, bool may_have_alibi = false);
/// The defaults of an encoder with RoPE instead of positions, and gated FFNs.
struct RotaryEncoderKeys {
  double theta = 10000;
  std::int64_t n_types = 0;
  std::int64_t pad_id = 0;
  std::int64_t max_seq_len = 8192;
  std::string_view activation = "gelu";
  std::string_view head_dim_key{};  ///< Empty: a head has d_model / n_heads elements.
};
/// Reads one with BERT's keys and norms.
ModelConfig read_rotary_encoder(ConfigReader& c, const RotaryEncoderKeys& keys);
/// Reads RoBERTa's config, whose positions begin after that of the padding.
ModelConfig read_roberta(ConfigReader& c);

/// A family with BERT's tensor names, without those of the head.
Family bert_like(std::string_view model_type, std::string_view architecture, std::string_view prefix,
                 std::function<ModelConfig(ConfigReader&)> read_config);
/// A family with RoBERTa's tensor names.
Family roberta_like(std::string_view model_type, std::string_view architecture, std::string_view without_head);

}  // namespace vitrine
