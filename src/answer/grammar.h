// What an answer may be, as a grammar: its reasoning, its content, and calls of declared tools with valid arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "answer/format.h"
#include "constrain/grammar.h"
#include "constrain/vocabulary.h"

namespace vitrine::answer {

struct AnswerRules {
  enum class Calls : std::uint8_t {
    none,  ///< There are none.
    may,   ///< Calls, a content, or a content and then calls.
    must,  ///< At least one call, and no content.
  };
  Calls calls = Calls::none;
  OrderedJson tools = OrderedJson::array();     ///< That may be called: a list as in requests.
  bool may_have_several = true;                 ///< Calls.
  std::optional<constrain::Grammar> content{};  ///< What the content may be; none: any text.
};

/// Where the reasoning of an answer begins.
enum class ReasoningPlace : std::uint8_t {
  prompt,   ///< The prompt has begun it.
  answer,   ///< The answer may begin with it.
  nowhere,  ///< The prompt has ended it, or the format has none.
};
ReasoningPlace reasoning_place(const AnswerFormat& format, std::string_view prompt);

/// The answers in a format that follow the rules, as texts of tokens that are not in `stop_ids`, which end
/// them. What begins a call or a reasoning is nowhere in a content. Throws BadInput and Unsupported for rules that no
/// answer can follow, or arguments that the format cannot write, with the tool's name and the place in its schema.
constrain::Grammar answer_grammar(const AnswerFormat& format, ReasoningPlace reasoning, const AnswerRules& rules,
                                  const constrain::Vocabulary& vocabulary, std::span<const std::int32_t> stop_ids);

/// All texts that a format has around values.
std::vector<std::string> texts_of(const AnswerFormat& format);

}  // namespace vitrine::answer
