// The flags of generation, which generate, translate and chat share.
#pragma once

#include "cli/options.h"
#include "generate/make_request.h"

namespace vitrine::cli {

/// Adds the flags of the rows that are offered in one of the commands.
void add_generate_options(Command& command, OfferedIn place, GenerateOptions& options);

/// Sets an option to the value that a text spells, or adds it to a list. Returns false if it is no such value. Whether
/// an option of the sampler is in its range is left to SamplingConfig::validate(), which sees the checkpoint's values,
/// too.
bool set_from_text(const OptionRow& row, const std::string& text, GenerateOptions& options);
/// What set_from_text() takes, for messages.
std::string expected_text(const OptionRow& row);

/// The request to translate `ids`. Throws BadInput if they exceed the encoder's context; the message begins with
/// `where`.
GenerateRequest translation_of(const Session& session, GenerateOptions options, const std::vector<std::int32_t>& ids,
                               const std::string& where);

}  // namespace vitrine::cli
