// Requests that read texts: rerankers, classifiers, scores of pairs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/pair_prompt.h"
#include "generate/rerank.h"
#include "generate/text_vectors.h"
#include "serve/modifier_fields.h"
#include "serve/read_reply.h"

namespace vitrine {

/// The texts of a request while they are collected.
class TextCollector {
 public:
  /// `truncates`: longer texts are cut as in sentence-transformers, instead of being refused.
  TextCollector(const ServedModel& model, bool truncates) : model_(model), truncates_(truncates) {}

  /// A text, prepared as the folder says: the model's own, with another prompt or role. Throws RequestError for one
  /// that is empty of tokens or too long.
  void add(const std::string& text, const SentenceConfig& folder, const std::string& where);
  /// A pair, as one text. Throws RequestError, and what the tokenizer throws.
  void add_pair(const std::string& a, const std::string& b, const std::string& where);
  TextsToRead take(std::optional<ModifierList> modifiers);

 private:
  void put(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, TextMarks marks, const std::string& where);

  const ServedModel& model_;
  bool truncates_;
  std::optional<PairPrompt> chat_;  // of a model that reads pairs in a chat template
  TextsToRead texts_;
};

/// Reads texts for the outputs of the model's head.
TextTask::Read reads_outputs();
/// Reads texts for what the folder's steps make of them: a vector, or those of its tokens one after another. `width`,
/// if it is not null, receives the size of a vector.
TextTask::Read reads_vectors(const SentenceConfig& folder, const VectorOptions& options,
                             std::shared_ptr<std::int64_t> width = nullptr);
/// The vectors of a text that reads_vectors() has delivered.
TextVectors vectors_in(const std::vector<float>& values, std::int64_t width);

/// The head of a model that gives texts labels. Throws RequestError for any other.
const TaskHead& classes_of(const ServedModel& model);

/// Scores of documents for a query: of a head of one label by reading both together, else of the similarity of vectors.
struct RankRequest {
  std::string query;
  std::vector<std::string> documents;
  bool raw = false;  ///< The outputs of a head, not what is made of them.
  bool truncates = true;
};
/// `write` gets the scores in the order of the documents, and the number of tokens.
std::shared_ptr<PendingReply> rank(const ServedModel& model, const RankRequest& request,
                                   std::optional<ModifierList> modifiers, const RouteRequest& from,
                                   std::function<Json(const std::vector<float>& scores, std::int64_t n_tokens)> write);

}  // namespace vitrine
