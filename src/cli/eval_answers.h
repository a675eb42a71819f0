// The answers of a model to the questions of a file, for eval --task answer.
#pragma once

#include <string>
#include <vector>

#include "cli/text_inputs.h"
#include "metrics/named_score.h"

namespace vitrine::cli {

/// exact_match and f1 of the best answer to each question of a JSON Lines file with the columns `question`, `context`
/// and `answers`: a list of texts, or {"text": [TEXT, …]} as in SQuAD. Answers are those of `vitrine answer`, with
/// --may-have-none if a question of the file has no answer. Throws Unsupported for a model without a head for answers,
/// BadInput for a malformed line.
std::vector<std::vector<NamedScore>> scores_of_answers(const Session& session, const TextInputOptions& options,
                                                       const std::string& path);

}  // namespace vitrine::cli
