// /v1/embeddings: vectors of texts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "generate/encode.h"
#include "generate/engine.h"
#include "serve/routes.h"
#include "serve/served_model.h"

namespace vitrine {

struct EmbeddingRequest {
  std::string model;  ///< As the client named it.
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<TextMarks> marks{};  ///< Of the texts.
  bool is_base64 = false;
  std::optional<ModifierList> modifiers{};  ///< Absent: those of all requests.
  std::optional<bool> normalize;            ///< Whether vectors have length 1; absent: as the model's folder says.
  std::int64_t n_tokens = 0;
};

/// Parses a body. Throws RequestError, and what the tokenizer throws.
EmbeddingRequest parse_embeddings(const ServedModel& model, std::string_view body);

/// The texts of a request as sequences of an engine, which read them in its rounds. Not for models with an encoder and
/// those that attend to later tokens.
struct EmbeddingSequences {
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RowPooler>> poolers;  ///< One for each; complete at the end of its sequence.

  EmbeddingSequences(const ServedModel& model, const EmbeddingRequest& request);
  std::vector<std::vector<float>> vectors() const;
};

/// The response: the vectors of the texts in their order, as lists of numbers that read back equal, or as base64 of
/// their float32 in little-endian order.
Json embeddings_reply(const EmbeddingRequest& request, const std::vector<std::vector<float>>& vectors);

/// Makes a response of the vectors of the texts.
using WriteVectors = std::function<Json(const EmbeddingRequest& request, const std::vector<std::vector<float>>& vectors,
                                        const JobTimes& times)>;
/// The work of a request, whose response may have any interface's form.
std::shared_ptr<PendingReply> vectors_of(const ServedModel& model, EmbeddingRequest request, const RouteRequest& from,
                                         WriteVectors write);

}  // namespace vitrine
