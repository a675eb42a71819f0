#include "chat/chat_format.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

ChatFormat::ChatFormat(ChatTemplates templates, const Tokenizer& tokenizer, ChatVariables variables,
                       std::string_view where)
    : templates_(std::move(templates)),
      tokenizer_(&tokenizer),
      variables_(std::move(variables)),
      plain_(templates_.choose(false, where)),
      with_tools_(templates_.choose(true, where)) {}

RenderedTemplate ChatFormat::render(const ChatHistory& conversation, bool asks_for_answer) const {
  const auto text = [](const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  const TemplateData messages = TemplateData::parse(text(conversation.messages()), "messages");
  const TemplateData tools = TemplateData::parse(text(conversation.tools()), "tools");
  TemplateInput input;
  input.messages = &messages.value();
  input.tools = &tools.value();
  input.add_generation_prompt = asks_for_answer;
  input.special_tokens = templates_.special_tokens;
  for (const auto& [name, value] : variables_.by_name) input.variables.emplace_back(name, &value.value());
  input.now = variables_.now ? *variables_.now : TemplateClock::now();
  input.reports_literal = true;
  return (conversation.tools().is_null() ? plain_ : with_tools_).render(input);
}

std::vector<std::int32_t> ChatFormat::encode(const ChatHistory& conversation, bool asks_for_answer) const {
  const RenderedTemplate rendered = render(conversation, asks_for_answer);
  return tokenizer_->encode_trusted(rendered.text, rendered.literal);
}

/// Renders an answer, and looks for a special token after it. Some templates end only answers that are not the last.
std::optional<std::int32_t> ChatFormat::end_of_answer() const {
  const std::string answer = "vitrine's answer 31415926";
  ChatHistory conversation;
  for (const char* role : {"user", "assistant", "user"}) {
    conversation.add(role, conversation.messages().size() == 1 ? answer : "A question");
    if (conversation.messages().size() == 1) continue;
    try {
      const std::string text = render(conversation, false).text;
      const std::size_t at = text.rfind(answer);
      if (at == text.npos) continue;
      if (const auto id = first_special(std::string_view(text).substr(at + answer.size()))) return id;
    } catch (const TemplateError&) {  // the template accepts other conversations only
    }
  }
  return std::nullopt;
}

/// The token with which a text begins after white space, if it is not an ordinary piece of text: a special token, or
/// one in brackets, because some tokenizers do not mark their control tokens as special.
std::optional<std::int32_t> ChatFormat::first_special(std::string_view text) const {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const std::vector<std::int32_t> ids = tokenizer_->encode(text, SpecialTokens::written);
  if (ids.empty()) return std::nullopt;
  const std::string piece = tokenizer_->piece(ids[0]);
  if (piece.empty() || !text.starts_with(piece)) return std::nullopt;
  const bool is_in_brackets = piece.size() > 2 && ((piece.front() == '<' && piece.back() == '>') ||
                                                   (piece.front() == '[' && piece.back() == ']'));
  const bool is_special = tokenizer_->encode(piece, SpecialTokens::none) != std::vector{ids[0]};
  return is_in_brackets || is_special ? std::optional(ids[0]) : std::nullopt;
}

}  // namespace vitrine
