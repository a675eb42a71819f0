#include "chat/chat_format.h"

#include <algorithm>

#include "answer/history.h"
#include "answer/learn.h"
#include "answer/marks.h"
#include "base/error.h"

namespace vitrine {
namespace {

/// Marks the end of the last message; transformers 5.24 uses the same mark, which templates may see.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG ";

OrderedJson with_end_mark(OrderedJson messages) {
  const bool has_text = !messages.empty() && messages.back().contains("content");
  if (!has_text || !messages.back()["content"].is_string()) {
    throw BadInput("messages", "expected a last message with a text to continue");
  }
  messages.back()["content"].get_ref<std::string&>() += kEndMark;
  return messages;
}

/// Tools whose functions all have a description, which some templates read without asking.
OrderedJson with_descriptions(OrderedJson tools) {
  for (OrderedJson& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    OrderedJson& function = tool["function"];
    if (!function.contains("description") || function["description"].is_null()) function["description"] = "";
  }
  return tools;
}

/// Ends a rendering at the mark. A template that strips the space of the mark has stripped that of the message.
void cut_at_mark(RenderedTemplate& rendered, std::string_view last) {
  const std::string_view mark = answer::stripped(kEndMark);
  const std::size_t at = rendered.text.rfind(mark);
  if (at == rendered.text.npos || rendered.text.find(answer::stripped(last)) == rendered.text.npos) {
    throw BadInput("messages", "the chat template does not write the last message as it is: it cannot be continued");
  }
  const bool keeps_space = std::string_view(rendered.text).substr(at).starts_with(kEndMark);
  rendered.text.resize(at);
  if (!keeps_space) rendered.text.resize(answer::right_stripped(rendered.text).size());
  const std::int64_t size = std::ssize(rendered.text);
  std::erase_if(rendered.literal, [&](const auto& span) { return span.first >= size; });
  if (!rendered.literal.empty()) rendered.literal.back().second = std::min(rendered.literal.back().second, size);
}

}  // namespace

ChatFormat::ChatFormat(ChatTemplates templates, const Tokenizer& tokenizer, ChatVariables variables,
                       std::string_view where)
    : templates_(std::move(templates)),
      tokenizer_(&tokenizer),
      variables_(std::move(variables)),
      plain_(templates_.choose(false, where)),
      with_tools_(templates_.choose(true, where)),
      answers_(answer::learn_format({&plain_, &with_tools_, templates_.choose(true, where), templates_.special_tokens,
                                     variables_.now.value_or(TemplateClock{})})) {}

RenderedTemplate ChatFormat::render(const ChatHistory& conversation, const ChatRendering& how) const {
  try {
    return render(conversation, conversation.tools(), how);
  } catch (const TemplateError&) {
    const OrderedJson described = with_descriptions(conversation.tools());
    if (described == conversation.tools()) throw;
    return render(conversation, described, how);
  }
}

RenderedTemplate ChatFormat::render(const ChatHistory& conversation, const OrderedJson& all_tools,
                                    const ChatRendering& how) const {
  const auto text = [](const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  const OrderedJson written = answer::history_as_read(conversation.messages(), answers_);
  const TemplateData messages =
      TemplateData::parse(text(how.continues_last ? with_end_mark(written) : written), "messages");
  const TemplateData tools = TemplateData::parse(text(all_tools), "tools");
  TemplateInput input;
  input.messages = &messages.value();
  input.tools = &tools.value();
  if (how.documents) input.documents = &how.documents->value();
  input.add_generation_prompt = how.asks_for_answer;
  input.special_tokens = templates_.special_tokens;
  for (const auto* const variables : {&variables_.by_name, &how.variables}) {
    for (const auto& [name, value] : *variables) input.variables.emplace_back(name, &value.value());
  }
  input.now = variables_.now ? *variables_.now : TemplateClock::now();
  input.reports_literal = true;
  RenderedTemplate rendered = (all_tools.is_null() ? plain_ : with_tools_).render(input);
  if (how.continues_last) cut_at_mark(rendered, written.back()["content"].get_ref<const std::string&>());
  return rendered;
}

EncodedChat ChatFormat::encoded(const ChatHistory& conversation, const ChatRendering& how) const {
  RenderedTemplate rendered = render(conversation, how);
  const auto policy = how.adds_special_tokens ? SpecialTokens::apply : SpecialTokens::written;
  std::vector<std::int32_t> ids = tokenizer_->encode_trusted(rendered.text, rendered.literal, policy);
  return {std::move(rendered.text), std::move(ids)};
}

/// Renders an answer, and looks for a special token after it. Some templates end only answers that are not the last.
std::optional<std::int32_t> ChatFormat::end_of_answer() const {
  const std::string answer = "vitrine's answer 31415926";
  ChatHistory conversation;
  for (const char* role : {"user", "assistant", "user"}) {
    conversation.add(role, conversation.messages().size() == 1 ? answer : "A question");
    if (conversation.messages().size() == 1) continue;
    try {
      const std::string text = render(conversation, {.asks_for_answer = false}).text;
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

Json effort_variables(const answer::AnswerFormat& format, const std::string& effort) {
  const auto is_read = [&](std::string_view name) { return std::ranges::count(format.variables, name) > 0; };
  Json all = Json::object();
  if (is_read("reasoning_effort")) all["reasoning_effort"] = effort;
  bool has_switch = false;
  for (const char* const name : {"enable_thinking", "thinking"}) {
    has_switch = has_switch || is_read(name);
    if (effort == "none" && is_read(name)) all[name] = false;
  }
  if (all.empty() && !has_switch) {
    throw Unsupported("reasoning_effort",
                      "the chat template reads neither this variable nor a switch of its reasoning");
  }
  return all;
}

}  // namespace vitrine
