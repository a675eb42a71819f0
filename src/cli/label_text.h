// Texts as a classifier or a reranker reads them, with their places, and what explains a label of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/text_inputs.h"
#include "inspect/label_report.h"

namespace vitrine::cli {

/// Puts the text of stdin in place of `-`, so that it can be read again.
void read_text_once(Options& options);

/// Reads the text as classify does, the query and the document as rerank does. `session` has the ids of --ids, or none;
/// then `inputs`, which are empty, are not read. Throws Unsupported for `with_words` where the places of words are not
/// known.
LabelText label_text(const Options& options, const Session& session, TextInputs& inputs,
                     const std::optional<std::string>& pair, bool with_words);

/// The token whose embedding is the baseline of integrated gradients: `pad`, `mask`, a word or #ID; absent: the padding
/// or, if the config names none, the mask. Throws BadInput if there is none.
std::int32_t baseline_of(const std::optional<std::string>& given, const Session& session);

}  // namespace vitrine::cli
