// How a model reads conversations: as the text that its chat template makes of them, in its tokenizer's ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/format.h"
#include "chat/chat_history.h"
#include "template/chat_template.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Values that templates read besides the conversation.
struct ChatVariables {
  std::vector<std::pair<std::string, TemplateData>> by_name;
  /// Absent: the time of each rendering. In a conversation with a cache it is fixed, so that the date in a prompt does
  /// not change from turn to turn.
  std::optional<TemplateClock> now;
};

/// How a conversation is rendered, besides its messages.
struct ChatRendering {
  bool asks_for_answer = true;       ///< It is followed by what asks the model for an answer.
  bool continues_last = false;       ///< It ends within its last message, which the model continues.
  bool adds_special_tokens = false;  ///< The tokenizer adds BOS and EOS to what the template writes.
  std::vector<std::pair<std::string, TemplateData>> variables{};  ///< Replace those of the format.
  std::optional<TemplateData> documents{};                        ///< What templates call documents.
};

/// A conversation as a model reads it.
struct EncodedChat {
  std::string text;
  std::vector<std::int32_t> ids;
};

class ChatFormat {
 public:
  /// `tokenizer` must outlive this object; `where` names the model in errors. Throws BadInput if there is no template,
  /// TemplateError if it cannot be parsed.
  ChatFormat(ChatTemplates templates, const Tokenizer& tokenizer, ChatVariables variables, std::string_view where);

  /// The text and the ids of the conversation. Special tokens are recognized only where the template wrote them. Throws
  /// TemplateError, BadInput.
  EncodedChat encoded(const ChatHistory& conversation, const ChatRendering& how) const;
  std::vector<std::int32_t> encode(const ChatHistory& conversation, const ChatRendering& how) const {
    return encoded(conversation, how).ids;
  }

  /// The text of the conversation whose ids encode() returns.
  std::string text(const ChatHistory& conversation, const ChatRendering& how) const {
    return render(conversation, how).text;
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  /// What the template writes for calls of tools and for reasoning.
  const answer::AnswerFormat& answers() const { return answers_; }

  /// The token that the template puts after an answer, such as <|im_end|>, in addition to the tokens that end texts
  /// anyway. None if the template ends answers with text or not at all.
  std::optional<std::int32_t> end_of_answer() const;

 private:
  RenderedTemplate render(const ChatHistory& conversation, const OrderedJson& all_tools,
                          const ChatRendering& how) const;
  RenderedTemplate render(const ChatHistory& conversation, const ChatRendering& how) const;
  std::optional<std::int32_t> first_special(std::string_view text) const;

  ChatTemplates templates_;
  const Tokenizer* tokenizer_;
  ChatVariables variables_;
  ChatTemplate plain_, with_tools_;
  answer::AnswerFormat answers_;
};

/// The variables of a template that ask for so much reasoning, as an object: `reasoning_effort`, and, for "none", the
/// switch of the reasoning. Throws Unsupported if the template reads neither.
Json effort_variables(const answer::AnswerFormat& format, const std::string& effort);

}  // namespace vitrine
