// Searches as BEIR has them: a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/task_texts.h"
#include "metrics/ranking_scores.h"

namespace vitrine::cli {

struct RetrievalData {
  std::vector<std::string> document_ids, documents;
  std::vector<std::string> queries;             ///< Those that have a relevant document.
  std::vector<std::set<std::size_t>> relevant;  ///< The numbers of the relevant documents of each query.
  std::vector<std::int64_t> n_relevant;         ///< Also those that the corpus does not have.
};

/// Reads a folder. `qrels`: the file of relevant documents; "": qrels/test.tsv, or the only file there. Throws
/// BadInput.
RetrievalData read_retrieval(const std::string& folder, const std::string& qrels);

/// The first hundred documents of each query, by the similarity of their vectors; equal ones by their ids.
std::vector<RankedQuery> retrieve(TaskTexts& texts, const RetrievalData& data);

}  // namespace vitrine::cli
