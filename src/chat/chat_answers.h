// How the answers of a chat are constrained and taken apart: their reasoning, their content and their calls of tools.
#pragma once

#include <memory>
#include <string>

#include "answer/grammar.h"
#include "answer/reader.h"
#include "chat/chat_format.h"
#include "generate/make_request.h"

namespace vitrine {

/// What a request wants of the answers to a prompt.
struct AnswerWishes {
  answer::AnswerRules rules{};   ///< Of calls: which tools there are, and whether one must be called.
  bool has_tools = false;        ///< The prompt shows tools.
  bool keeps_reasoning = false;  ///< It stays in the content.
};

/// What the answers of a chat consist of.
struct ChatAnswers {
  answer::AnswerFormat format{};  ///< Without calls, or without a reasoning, where these stay in the content.
  std::string prompt{};
  OrderedJson tools{};                      ///< That may be called, or null.
  std::vector<std::int32_t> shown{};        ///< The special tokens in what is around values: they appear in the text.
  std::optional<ReasoningBudget> budget{};  ///< Of their reasoning.
  /// What an answer may be; null if it may be anything.
  std::shared_ptr<const constrain::Constraint> constraint{};
  bool is_open = false;  ///< The content may be any text.

  answer::AnswerReader reader() const { return {format, prompt, tools}; }
  /// Completes what make_request() has made of the same options.
  void apply_to(GenerateRequest& request, const GenerateOptions& given, const RequestDefaults& model) const;
  /// How many of the tokens of an answer are its reasoning and the marks around it.
  std::int64_t n_reasoning(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) const;
  /// The id of call `index` of a sequence: as the template has ids, and else `call_` and 24 letters and digits.
  std::string call_id(std::uint64_t seed, std::size_t sequence, std::size_t index) const;
};

/// The arguments of a call as an object; none for a call that breaks off.
std::optional<OrderedJson> input_of(const answer::AnswerDelta::Call& call);

/// The answers to a prompt of the format, whose text is `prompt`. Null if they are nothing but content. `given`: the
/// options of the request, whose stop_ids, which end answers, are set; of `model` the constraints are used. Throws
/// BadInput and Unsupported, as answer_grammar() does, for calls that the format cannot write.
std::shared_ptr<const ChatAnswers> chat_answers(const ChatFormat& chat, const RequestDefaults& model,
                                                const AnswerWishes& wishes, const GenerateOptions& given,
                                                std::string prompt);

}  // namespace vitrine
