// How a model reads the conversations of the public interface.
#pragma once

#include <string_view>

#include "chat/chat_format.h"
#include "vitrine/vitrine.h"

namespace vitrine {

/// The format of a conversation, with its variables and its time. `where` names the model in errors. Throws BadInput
/// for JSON and times that are malformed, TemplateError. `tokenizer` must outlive the result.
ChatFormat format_of(const Chat& chat, const ChatTemplates& templates, const Tokenizer& tokenizer,
                     std::string_view where);

/// The messages and tools of a conversation. Bytes that are not UTF-8 become U+FFFD. Throws BadInput for JSON that is
/// malformed.
ChatHistory history_of(const Chat& chat);

}  // namespace vitrine
