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
#include "generate/text_vectors.h"
#include "serve/read_reply.h"
#include "serve/routes.h"
#include "serve/served_model.h"

namespace vitrine {

struct EmbeddingRequest {
  std::string model;  ///< As the client named it.
  TextsToRead texts;
  VectorOptions options{};  ///< Whether vectors have length 1, and their first elements.
  bool is_base64 = false;
};

/// Parses a body. Throws RequestError, and what the tokenizer throws.
EmbeddingRequest parse_embeddings(const ServedModel& model, std::string_view body);

/// The field `dimensions`, or another name of it. Throws RequestError.
std::optional<std::int64_t> read_dimensions(const ServedModel& model, RequestFields& fields,
                                            const char* name = "dimensions");
/// The field `encoding_format`: whether vectors are base64. Throws RequestError.
bool read_is_base64(RequestFields& fields);

/// The texts of a request as sequences of an engine, which read them in its rounds. Not for models with an encoder and
/// those that attend to later tokens, nor for folders whose steps do more than SentenceConfig::pooling says.
struct EmbeddingSequences {
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RowPooler>> poolers;  ///< One for each; complete at the end of its sequence.
  VectorOptions options;

  EmbeddingSequences(const ServedModel& model, const TextsToRead& texts, const VectorOptions& options);
  std::vector<std::vector<float>> vectors() const;
};

/// A vector as a list of numbers that read back equal, or as base64 of its float32 in little-endian order.
Json vector_json(const std::vector<float>& vector, bool is_base64);
/// The rows of a text, each of `d` elements, as a list of lists.
Json rows_json(const std::vector<float>& rows, std::int64_t d);
/// The response: the vectors of the texts in their order.
Json embeddings_reply(const EmbeddingRequest& request, const std::vector<std::vector<float>>& vectors);

/// Makes a response of the vectors of the texts.
using WriteVectors = std::function<Json(const EmbeddingRequest& request, const std::vector<std::vector<float>>& vectors,
                                        const JobTimes& times)>;
/// The work of a request, whose response may have any interface's form.
std::shared_ptr<PendingReply> vectors_of(const ServedModel& model, EmbeddingRequest request, const RouteRequest& from,
                                         WriteVectors write);
/// What the folder's steps make of texts; the same in rounds of the engine if the model continues texts.
std::shared_ptr<PendingReply> vectors_of(const ServedModel& model, TextsToRead texts, const VectorOptions& options,
                                         const RouteRequest& from, ReadReply::Write write);

}  // namespace vitrine
