// Scores of searches and rerankers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/named_score.h"

namespace vitrine {

/// What a query found: whether each document is relevant, from the first on, and how many are relevant at all.
struct RankedQuery {
  std::vector<bool> is_relevant;
  std::int64_t n_relevant = 0;
};

/// accuracy@k, precision@k, recall@k, mrr@k, ndcg@k and map@k, by query, as the InformationRetrievalEvaluator of
/// sentence-transformers: documents are relevant or not; k is 1, 3, 5 and 10 for the first three, 10 for MRR and nDCG,
/// 100 for MAP; recall also at 100.
std::vector<NamedScore> query_scores(const RankedQuery& query);

/// map, mrr@10 and ndcg@10 of documents with scores, as the CrossEncoderRerankingEvaluator of sentence-transformers:
/// average precision and nDCG take documents of equal scores together, as scikit-learn does. All are 0 if none is
/// relevant.
std::vector<NamedScore> rerank_scores(std::span<const double> scores, const std::vector<bool>& is_relevant);

/// The means over queries of their scores, which have the same names.
std::vector<NamedScore> mean_scores(std::span<const std::vector<NamedScore>> queries,
                                    std::span<const std::size_t> numbers);

}  // namespace vitrine
