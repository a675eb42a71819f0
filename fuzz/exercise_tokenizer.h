// Runs a tokenizer that a fuzz target has read.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine::fuzz {

/// Splits `input` at the mark `#text`. `parse` makes a tokenizer of the file before the mark; the tokenizer encodes and
/// decodes the text after it. Without a mark the text is the beginning of the file. Returns the result of a target.
int fuzz_tokenizer(std::string_view input,
                   const std::function<std::unique_ptr<const Tokenizer>(std::string_view file)>& parse);

}  // namespace vitrine::fuzz
