// How a text became ids, for a terminal and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::cli {

/// A line a step; spaces and control characters visible.
std::string explanation_table(const Explanation& explanation, const Tokenizer& tokenizer);

/// {"ids", "pieces", "steps": [{"step": "text" | "token" | "normalized" | "cut" | "word", …}], "is_cut"}. Bytes that
/// are no UTF-8 are written as \xNN.
Json explanation_json(const Explanation& explanation, const Tokenizer& tokenizer);

}  // namespace vitrine::cli
