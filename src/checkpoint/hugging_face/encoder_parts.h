// The parts that BERT and its relatives share.
#pragma once

#include "checkpoint/hugging_face/family_parts.h"

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
/// Reads BERT's config. `head_activation`, if given, replaces hidden_act in the head.
ModelConfig read_bert(ConfigReader& c, std::optional<Activation> head_activation = std::nullopt,
                      std::int64_t pad_id = 0);
/// Reads RoBERTa's config, whose positions begin after that of the padding.
ModelConfig read_roberta(ConfigReader& c);

/// A family with BERT's tensor names, without those of the head.
Family bert_like(std::string_view model_type, std::string_view architecture, std::string_view prefix,
                 std::function<ModelConfig(ConfigReader&)> read_config);
/// A family with RoBERTa's tensor names.
Family roberta_like(std::string_view model_type, std::string_view architecture, std::string_view without_head);

}  // namespace vitrine
