// What a GGUF file that a command writes has besides the model: its tokenizer, and how it reads texts.
#pragma once

#include <string>

#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/sentences.h"
#include "cli/options.h"

namespace vitrine::cli {

/// The keys of the tokenizer to embed: that of --tokenizer, else the model's. If it cannot be embedded, keys without
/// one, and the reason in `why_none`.
GgufKeys tokenizer_keys(const Options& o, const std::string& model, const Checkpoint& checkpoint,
                        std::string& why_none);

/// The extras of a file with these keys of a tokenizer, and with `sentences`.
GgufExtras gguf_extras(GgufKeys tokenizer, const GgufSentences& sentences);

}  // namespace vitrine::cli
