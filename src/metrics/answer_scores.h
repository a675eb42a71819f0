// Scores of answers that are parts of a text, as SQuAD's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/named_score.h"

namespace vitrine {

/// An answer as it is compared: in lower case, without ASCII punctuation and the words a, an and the, its words
/// separated by one space. Source: Rajpurkar et al. 2016, evaluate-v1.1.py.
std::string comparable_answer(std::string_view answer);

/// exact_match and f1 of an answer, each the best over the right ones. F1 is that of their words. If there is no right
/// answer, both are 1 for "" and 0 otherwise, as in SQuAD 2.
std::vector<NamedScore> answer_scores(std::string_view answer, std::span<const std::string> truths);

}  // namespace vitrine
