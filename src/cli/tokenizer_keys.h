// The tokenizer of a GGUF file that a command writes.
#pragma once

#include <string>

#include "base/gguf_writer.h"
#include "cli/options.h"

namespace vitrine::cli {

/// The keys of the tokenizer to embed: that of --tokenizer, else the model's. If it cannot be embedded, keys without
/// one, and the reason in `why_none`.
GgufKeys tokenizer_keys(const Options& o, const std::string& model, const Checkpoint& checkpoint,
                        std::string& why_none);

}  // namespace vitrine::cli
