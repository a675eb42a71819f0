// A query and a document as the chat template of a decoder that scores them writes them.
//
// Source: sentence-transformers 6.2.0, base/modality.py and base/modules/transformer.py: messages with the roles query
// and document, after the prompt as a system message; the tokens that follow both in every text of the template are
// kept when the text is truncated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ordered_json.h"
#include "template/chat_template.h"
#include "tokenizer/placed.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

class PairPrompt {
 public:
  /// `tokenizer` must outlive this object; `where` names the model in errors. The contents of messages are lists of
  /// parts if `has_parts`, by default if the template reads such. Throws BadInput if there is no template,
  /// TemplateError if it cannot be parsed, Unsupported if it does not write both texts.
  PairPrompt(const ChatTemplates& templates, const Tokenizer& tokenizer, const std::string& where,
             std::optional<bool> has_parts = {});

  /// The ids of the template's text. With `most`, at most so many: the others are cut at the end, and the last ones are
  /// those that end every text. `prompt` may be empty. Throws TemplateError.
  PairEncoding encode(const std::string& prompt, const std::string& query, const std::string& document,
                      std::optional<std::int64_t> most) const;
  /// The same ids with their places in the query (text 0) and the document (text 1); those of the template and of the
  /// prompt are of no text (−1). Throws Unsupported if the template changes a text, if a text spells a special token,
  /// and if the tokenizer does not know places.
  PlacedTexts encode_placed(const std::string& prompt, const std::string& query, const std::string& document,
                            std::optional<std::int64_t> most) const;

 private:
  RenderedTemplate render(const std::string& prompt, const std::string& query, const std::string& document) const;
  std::vector<std::int32_t> ids_of(const std::string& prompt, const std::string& query,
                                   const std::string& document) const;
  /// The last ids of every text with this prompt.
  std::vector<std::int32_t> suffix_of(const std::string& prompt) const;

  std::vector<std::pair<std::string, std::string>> special_tokens_;
  const Tokenizer* tokenizer_;
  ChatTemplate template_;
  bool is_structured_ = false;  // contents are lists of parts
};

}  // namespace vitrine
