// Takes the text of an answer apart, by the format that its template was found to have.
#pragma once

#include <string_view>

#include "answer/format.h"

namespace vitrine::answer {

/// The parts of `text`, what the model wrote after `prompt`, with or without what the template puts after an answer.
/// `tools` (a list as in requests, or null) says which names calls may have, and the types of their arguments. A text
/// that is no whole call of a declared tool is content.
ParsedAnswer parse_answer(const AnswerFormat& format, std::string_view prompt, std::string_view text,
                          const OrderedJson& tools);

}  // namespace vitrine::answer
