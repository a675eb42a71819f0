// Scores of documents for queries, as all routes get them that rank or compare texts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/reading.h"

namespace vitrine {

struct RankRequest {
  std::vector<std::string> queries;  ///< One, or one for each document.
  std::vector<std::string> documents;
  bool raw = false;  ///< The outputs of a head, not what is made of them.
  TextCut cut{};
  std::optional<std::string> prompt{};  ///< Before all texts, instead of the folder's for queries and documents.
};

/// Makes a response of the scores in the order of the documents, and the number of tokens.
using WriteScores = std::function<Json(const std::vector<float>& scores, std::int64_t n_tokens)>;

/// By what rank_method() says: a head of one label that reads both texts together, or the similarity of vectors.
/// `fields` has the field `vitrine`. Throws RequestError, also for a model that does neither.
std::shared_ptr<PendingReply> rank(const ServedModel& model, const RankRequest& request, ReadChoice choice,
                                   RequestFields& fields, const RouteRequest& from, WriteScores write);
/// By the similarity of vectors, whatever the model.
std::shared_ptr<PendingReply> compare(const ServedModel& model, const RankRequest& request, ReadChoice choice,
                                      RequestFields& fields, const RouteRequest& from, WriteScores write);

}  // namespace vitrine
