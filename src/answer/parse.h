// Takes the text of an answer apart, by the format that its template was found to have.
#pragma once

#include <optional>
#include <string_view>

#include "answer/format.h"

namespace vitrine::answer {

/// The parts of `text`, what the model wrote after `prompt`, with or without what the template puts after an answer.
/// `tools` (a list as in requests, or null) says which names calls may have, and the types of their arguments. A text
/// that is no whole call of a declared tool is content.
ParsedAnswer parse_answer(const AnswerFormat& format, std::string_view prompt, std::string_view text,
                          const OrderedJson& tools);

/// Reads the arguments at the beginning of `text`, with the types of `schema` (null: unknown). Returns their value, and
/// removes them from `text`; none if `text` does not begin with arguments that are followed by `after`, or by anything
/// if it is "".
std::optional<OrderedJson> read_arguments(const ArgumentsFormat& format, const OrderedJson& schema,
                                          std::string_view after, std::string_view& text);

}  // namespace vitrine::answer
