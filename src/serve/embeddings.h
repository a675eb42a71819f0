// /v1/embeddings: vectors of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/served_model.h"

namespace vitrine {

struct EmbeddingRequest {
  std::string model;  ///< As the client named it.
  std::vector<std::vector<std::int32_t>> texts;
  bool is_base64 = false;
  std::int64_t n_tokens = 0;
};

/// Parses a body. Throws RequestError, and what the tokenizer throws.
EmbeddingRequest parse_embeddings(const ServedModel& model, std::string_view body);

/// The response: the vectors of the texts in their order, as lists of numbers that read back equal, or as base64 of
/// their float32 in little-endian order.
Json embeddings_reply(const EmbeddingRequest& request, const std::vector<std::vector<float>>& vectors);

}  // namespace vitrine
