// What a tokenizer that was read must do, whatever the file said.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine::fuzz {

/// Cuts `input` at the mark `#text`: in front of it the file, which `parse` turns into a tokenizer, behind it a text,
/// which is encoded and decoded. Without a mark the text is the beginning of the file. Returns what a target returns.
int fuzz_tokenizer(std::string_view input,
                   const std::function<std::unique_ptr<const Tokenizer>(std::string_view file)>& parse);

}  // namespace vitrine::fuzz
