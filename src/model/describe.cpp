#include "model/describe.h"

#include <cctype>

#include <fmt/format.h>

namespace vitrine {
namespace {

std::string describe_sinusoid(const EmbeddingConfig& c) {
  if (!c.sinusoid) return "none";
  static constexpr const char* kNames[] = {"interleaved", "halves", "tensor2tensor"};
  return fmt::format("{}, {}", kNames[static_cast<int>(*c.sinusoid)], c.position_table ? "as stored" : "computed");
}

std::string describe_relative_bias(const std::optional<RelativeBiasConfig>& c) {
  if (!c) return "none";
  return fmt::format("{} buckets up to distance {}", c->n_buckets, c->max_distance);
}

}  // namespace

std::string describe_norm(const std::optional<NormConfig>& norm) {
  if (!norm) return "none";
  return fmt::format("{}, eps {}{}{}{}", norm->kind == NormConfig::Kind::rms ? "RMSNorm" : "LayerNorm", norm->eps,
                     norm->weight ? "" : ", no weight",
                     norm->weight_offset != 0 ? fmt::format(", weight {} + w", norm->weight_offset) : "",
                     norm->bias ? ", bias" : "");
}

std::string_view describe_activation(Activation activation) {
  static constexpr std::string_view kNames[] = {"ReLU", "SiLU", "GELU (tanh form)", "GELU (exact)", "tanh", "ReLU²"};
  return kNames[static_cast<std::size_t>(activation)];
}

ConfigFacts describe_model(const ModelConfig& config) {
  ConfigFacts described = {
      {"d_model", config.d_model},
      {"n_layers", static_cast<std::int64_t>(config.n_layers())},
      {"vocab_size", config.vocab_size},
      {"max_seq_len", config.max_seq_len},
      {"embedding_scale", config.embedding.scale},
      {"learned_positions", config.embedding.position_table && !config.embedding.sinusoid},
      {"sinusoids", describe_sinusoid(config.embedding)},
      {"relative_bias", describe_relative_bias(config.relative_bias)},
      {"first_position", config.embedding.first_position},
      {"token_types", config.embedding.n_types},
      {"tokens_per_row", config.embedding.context},
      {"embedding_norm", describe_norm(config.embedding.norm)},
      {"final_norm", describe_norm(config.final_norm)},
      {"head", config.head.tied ? "tied to the embedding" : "untied"},
      {"head_transform", config.head.transform
                             ? "dense, " + std::string(describe_activation(config.head.transform->activation)) + ", " +
                                   describe_norm(config.head.transform->norm)
                             : "none"},
      {"logit_scale", config.head.scale},
      {"final_softcap", or_none(config.head.softcap)}};
  if (config.encoder) {
    described.push_back(
        {"encoder", fmt::format("d_model {}, {} layers, vocabulary {}, context {}, {}", config.encoder->d_model,
                                config.encoder->n_layers(), config.encoder->vocab_size, config.encoder->max_seq_len,
                                config.shared_embedding ? "embedding shared" : "its own embedding")});
  }
  return described;
}

namespace {

/// `cross_attention` for "cross-attention".
std::string key_of(std::string_view role) {
  std::string key(role);
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

std::string describe_residual(const BlockConfig& block) {
  const bool is_parallel = block.is_parallel();
  std::string order;
  for (const Sublayer& sublayer : block.sublayers) {
    if (!order.empty()) order += is_parallel ? " and " : ", then ";
    order += names_of(sublayer).role;
  }
  return (is_parallel ? "parallel: " : "serial: ") + order;
}

/// The block's own lines follow what its first sublayer says of itself.
ConfigFacts describe_block(const BlockConfig& block) {
  ConfigFacts described;
  for (const Sublayer& sublayer : block.sublayers) {
    const std::string_view role = names_of(sublayer).role;
    const ConfigFacts own = std::visit([](const auto& kind) { return describe(kind); }, sublayer.what);
    described.insert(described.end(), own.begin(), own.end());
    if (&sublayer == &block.sublayers.front()) {
      described.push_back({"residual", describe_residual(block)});
      described.push_back({"residual_scale", sublayer.scale});
    }
    const bool shares = sublayer.input == Sublayer::Input::previous;
    described.push_back(
        {"norm_before_" + key_of(role), shares ? "the norm before attention" : describe_norm(sublayer.norms.pre)});
    described.push_back({"norm_after_" + key_of(role), describe_norm(sublayer.norms.post)});
    described.push_back({"norm_of_sum_after_" + key_of(role), describe_norm(sublayer.norms.sum)});
    const bool reads_source = find<CrossAttentionConfig>(block) != nullptr;
    if (std::holds_alternative<AttentionConfig>(sublayer.what) && !reads_source) {
      described.push_back({"cross_attention", "none"});
    }
  }
  return described;
}

}  // namespace

ConfigFacts describe_layer(const StackConfig& stack, std::size_t i) {
  if (stack.layers.empty()) return describe_block(stack.blocks[i]);
  return std::visit([](const auto& kind) { return describe(kind); }, stack.layers[i]);
}

}  // namespace vitrine
