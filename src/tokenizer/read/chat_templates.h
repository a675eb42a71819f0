// Finds the chat templates of a model, and the special tokens that they read.
//
// Source: `from_pretrained` of transformers 5.23 for folders; llama.cpp's keys for GGUF files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gguf.h"
#include "base/gguf_writer.h"

namespace vitrine {

/// The templates of a model by name, usually one named "default", and its special tokens by the names of their
/// variables
/// (`bos_token`).
struct ChatTemplates {
  std::map<std::string, std::string> by_name;
  std::vector<std::pair<std::string, std::string>> special_tokens;

  /// The template for a conversation: "tool_use" if there are tools and the model has such a template, else "default".
  /// Throws BadInput if the model has no template, or several without a default; `where` names the model.
  const std::string& choose(bool has_tools, std::string_view where) const;
};

/// Reads the templates at `path`: a Hugging Face folder (chat_template.jinja and additional_chat_templates/NAME.jinja,
/// else "chat_template" of tokenizer_config.json), a GGUF file (tokenizer.chat_template, tokenizer.chat_template.NAME)
/// or a file with a template, whose name ends in .jinja. Throws BadCheckpoint if a file is malformed, BadInput if there
/// is no file.
ChatTemplates load_chat_templates(const std::string& path);

/// The templates and special tokens of the model at `path`; none if its format has no templates. If `file` is not
/// empty, the template in that file is used instead of the model's. Throws BadInput if `file` cannot be read,
/// BadCheckpoint.
ChatTemplates open_chat_templates(const std::string& path, const std::string& file);

/// The names of the files additional_chat_templates/NAME.jinja in a folder, sorted.
std::vector<std::string> additional_chat_templates(const std::string& folder);

/// The keys of a GGUF file for templates.
GgufKeys gguf_chat_template_keys(const ChatTemplates& templates);

}  // namespace vitrine
