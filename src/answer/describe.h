// Formats and answers as JSON.
#pragma once

#include "answer/format.h"

namespace vitrine::answer {

/// What docs/agents.md describes: {"tools", "reasoning", "variables"}.
OrderedJson formats_json(const AnswerFormat& format);

/// The message of the assistant: {"role", "content", "reasoning_content", "tool_calls"}, the last two if there are any.
/// Arguments are compact JSON text.
OrderedJson message_json(const ParsedAnswer& answer);

}  // namespace vitrine::answer
