// How a text becomes ids, as text and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::cli {

/// One line per step; spaces and control characters are made visible.
std::string explanation_table(const Explanation& explanation, const Tokenizer& tokenizer);

/// {"ids", "pieces", "steps": [{"step": "text" | "token" | "normalized" | "cut" | "word", …}], "is_cut"}. Bytes that
/// are not UTF-8 are written as \xNN.
Json explanation_json(const Explanation& explanation, const Tokenizer& tokenizer);

}  // namespace vitrine::cli
