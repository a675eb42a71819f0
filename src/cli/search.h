// The options of the search for texts, which generate and translate share.
#pragma once

#include "cli/options.h"
#include "cli/output.h"
#include "generate/choose_search.h"
#include "generate/choose_texts.h"
#include "report/results.h"

namespace vitrine::cli {

struct SearchOptions {
  SearchOverrides search;
  TextPrefix prefix;
};

/// Adds --max-tokens, --beam, --n-best, --length-penalty, --early-stop, --min-tokens, --no-repeat-ngram, --prefix,
/// --prefix-ids and --target-lang.
void add_search(CLI::App& command, SearchOptions& options);

/// Sets beams, rules and max_tokens of a request whose prompt is set, and its stop ids.
void set_search(const Session& session, const SearchOptions& options, bool samples, GenerateRequest& request);
/// The request to translate `ids`. Throws BadInput if they exceed the encoder's context; the message begins with
/// `where`.
GenerateRequest translation_of(const Session& session, const SearchOptions& options,
                               const std::vector<std::int32_t>& ids, const std::string& where);
/// The text with spaces for line breaks: a line for a line.
std::string one_line(std::string text);
/// Whether the caller has set an option of sampling.
bool wants_to_sample(const SamplingOverrides& sampling);

}  // namespace vitrine::cli
