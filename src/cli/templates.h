// The chat template of a command: the model's, or that of --template.
#pragma once

#include <string>

#include "tokenizer/chat_templates.h"

namespace vitrine::cli {

/// The templates and special tokens of a model. If `file` is not empty, its text is the only template. There is none if
/// neither has one.
ChatTemplates open_templates(const std::string& model, const std::string& file);

}  // namespace vitrine::cli
