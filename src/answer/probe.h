// Conversations that are rendered to find out what a template writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/format.h"
#include "template/chat_template.h"

namespace vitrine::answer {

/// Texts that no template writes by itself, and in which none has anything to escape or to cut.
constexpr std::string_view kReasoning = "vqreasoningvq", kContent = "vqcontentvq";

/// The name and the id of call `i` of a probe: nine letters and digits, as some templates demand of ids.
std::string probe_name(std::size_t i);
std::string probe_id(std::size_t i);

/// A message of the assistant.
struct Probe {
  std::optional<std::string> reasoning{}, content{};
  std::vector<OrderedJson> calls{};  ///< The arguments of call i, whose name is probe_name(i).
};

/// A template and what it reads besides conversations.
struct TemplateSource {
  const ChatTemplate* plain = nullptr;
  const ChatTemplate* with_tools = nullptr;  ///< For conversations with tools; may be the same.
  std::string text{};                        ///< The source of `with_tools`.
  std::vector<std::pair<std::string, std::string>> special_tokens{};
  TemplateClock now{};
};

class Prober {
 public:
  explicit Prober(TemplateSource source);

  const TemplateSource& source() const { return source_; }
  /// The text of a conversation; none if the template refuses it, and why() tells the reason.
  std::optional<std::string> render(const OrderedJson& messages, bool has_tools, bool asks_for_answer,
                                    const OrderedJson& variables = OrderedJson::object());
  /// The prompt for an answer to a question of the user.
  std::optional<std::string> prompt(bool has_tools);
  /// The same with a variable of the template.
  std::optional<std::string> prompt_with(std::string_view variable, const OrderedJson& value);
  /// What an answer adds to that prompt.
  std::optional<std::string> answer(const Probe& probe, const MessageForm& form, bool has_tools);
  const std::string& why() const { return why_; }

 private:
  TemplateSource source_;
  std::optional<std::string> prompts_[2];
  bool needs_tools_ = false;    // The template refuses conversations without tools.
  bool reached_limit_ = false;  // A rendering takes too long: there are no more.
  std::string why_;
};

/// The messages of a conversation whose last one is `probe`.
OrderedJson probe_messages(const Probe& probe, const MessageForm& form);
/// The tools that the calls of probes name.
OrderedJson probe_tools();

/// What `text` has after `prompt`: from their first difference, or from the mark in which it is.
std::string_view added_text(std::string_view prompt, std::string_view text);

}  // namespace vitrine::answer
