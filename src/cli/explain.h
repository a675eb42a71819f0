// Formats the explanation of an encoding as text and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::cli {

/// A table of the steps, then of the ids. Spaces and control characters are made visible; long texts are truncated.
std::string explanation_table(const Explanation& explanation, const Tokenizer& tokenizer);

/// {"ids", "pieces", "steps": [{"step": "text" | "token" | "normalized" | "cut" | "word", …}], "is_cut"}. Bytes that
/// are not UTF-8 are written as \xNN.
Json explanation_json(const Explanation& explanation, const Tokenizer& tokenizer);

}  // namespace vitrine::cli
