// Heads for labels in GGUF files, and how the rows of a text become one vector.
//
// cls.weight and cls.bias are a dense layer, cls.norm a norm after it, cls.output the labels. The architecture decides
// the activation: tanh in BERT, GELU in ModernBERT; Qwen 3 has no dense layer, and llama.cpp takes the softmax of its
// labels. Sources: ggml-org/llama.cpp, src/llama-graph.cpp (build_pooling), gguf-py/gguf/constants.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/architecture.h"

namespace vitrine {

/// The numbers are those of pooling_type.
enum class GgufPooling : std::uint8_t { none, mean, cls, last, rank };

inline constexpr const char* kPoolingType = "pooling_type";
inline constexpr const char* kClassifierPooling = "classifier.pooling_type";
inline constexpr const char* kClassifierLabels = "classifier.output_labels";
/// Of vitrine's own: the problem_type of config.json.
inline constexpr const char* kProblemType = "vitrine.problem_type";

/// The kind of pooling at one of these keys. Throws BadCheckpoint for another number.
std::optional<GgufPooling> gguf_pooling(const GgufMetadata& metadata, std::string_view architecture,
                                        const char* key = kPoolingType);

/// The head of a file that has cls.output. Throws BadCheckpoint and Unsupported for keys that contradict the tensors.
std::optional<TaskHead> read_gguf_head(const GgufArchitecture& architecture, const GgufMetadata& metadata,
                                       const StoredTensors& tensors, const ModelConfig& model);
/// The tensors of such a head.
std::vector<TensorRule> gguf_head_tensors();

/// The keys of the model's head, if it has one. Throws Unsupported for a head that llama.cpp would not read as it is.
GgufKeys gguf_head_keys(const GgufArchitecture& architecture, const ModelConfig& config, std::string_view where);

/// The keys of encoders besides those of their config: the types of tokens, and the feed-forward's activation.
GgufKeys gguf_encoder_keys(const GgufArchitecture& architecture, const ModelConfig& config);
/// What a file of the model lacks, or llama.cpp computes otherwise: one line each.
std::vector<std::string> encoder_notes(const GgufArchitecture& architecture, const ModelConfig& config);

}  // namespace vitrine
