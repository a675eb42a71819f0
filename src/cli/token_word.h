// A word on the command line that is one token.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "inspect/embedding.h"

namespace vitrine::cli {

/// Whether `word` is an id, such as `#464`.
bool is_id(const std::string& word);
/// The token of a word, given as text or as #ID. Throws BadInput for a word of several tokens and for an id outside the
/// vocabulary.
std::int32_t token_of(const Session& session, const std::string& word);
std::vector<std::int32_t> tokens_of(const Session& session, const std::vector<std::string>& words);

/// The vocabulary's mask token, as BERT or RoBERTa spell it. Throws BadInput if there is none.
std::int32_t mask_token(const Session& session, const char* where);

/// The terms of words such as `king`, `-`, `man`, `+`, `woman`; without signs they are added. Throws a usage error that
/// names `where` for a sign without a word.
std::vector<EmbeddingTerm> terms_of(const Session& session, const std::vector<std::string>& words,
                                    const std::string& where);
/// The same of one text, `king - man + woman`. The spaces around a sign belong to no word; where a word with a
/// space before it is one token, that token is meant.
std::vector<EmbeddingTerm> terms_in(const Session& session, const std::string& text, const std::string& where);

}  // namespace vitrine::cli
