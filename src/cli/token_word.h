// A word on the command line that is one token.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace vitrine::cli {

/// Whether `word` is an id, such as `#464`.
bool is_id(const std::string& word);
/// The token of a word, given as text or as #ID. Throws BadInput for a word of several tokens and for an id outside the
/// vocabulary.
std::int32_t token_of(const Session& session, const std::string& word);
std::vector<std::int32_t> tokens_of(const Session& session, const std::vector<std::string>& words);

}  // namespace vitrine::cli
