// How the answers of a chat are constrained and taken apart: their reasoning, their content and their calls of tools.
#pragma once

#include <memory>
#include <string>

#include "answer/reader.h"
#include "serve/served_model.h"
#include "serve/tool_fields.h"

namespace vitrine {

/// What the answers of a chat consist of.
struct ChatAnswers {
  answer::AnswerFormat format{};  ///< Without calls, or without a reasoning, where these stay in the content.
  std::string prompt{};
  OrderedJson tools{};                      ///< That may be called, or null.
  bool is_legacy = false;                   ///< A message has one `function_call`.
  std::vector<std::int32_t> shown{};        ///< The special tokens in what is around values: they appear in the text.
  std::optional<ReasoningBudget> budget{};  ///< Of their reasoning.
  /// What an answer may be; null if it may be anything.
  std::shared_ptr<const constrain::Constraint> constraint{};
  bool is_open = false;  ///< The content may be any text.

  answer::AnswerReader reader() const { return {format, prompt, tools}; }
  /// How many of the tokens of an answer are its reasoning and the marks around it.
  std::int64_t n_reasoning(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) const;
  /// The id of call `index` of a sequence: as the template has ids, and else `call_` and 24 letters and digits.
  std::string call_id(std::uint64_t seed, std::size_t sequence, std::size_t index) const;
};

/// The arguments of a call as an object; none for a call that breaks off.
std::optional<OrderedJson> input_of(const answer::AnswerDelta::Call& call);

/// The answers to a prompt of the model's template. `keeps_reasoning`: it stays in the content. Null if they are
/// nothing but content. `budget`: the most tokens of a reasoning. Throws RequestError for tools that the template
/// cannot call.
std::shared_ptr<const ChatAnswers> chat_answers(const ServedModel& model, const RequestedTools& tools,
                                                const GenerateOptions& given, bool keeps_reasoning,
                                                std::optional<std::int64_t> budget, std::string prompt);

}  // namespace vitrine
