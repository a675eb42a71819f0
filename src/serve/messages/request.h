// Requests of Anthropic's interface (https://docs.claude.com/en/api/messages) as those of OpenAI's chats, which have
// all that they say.
#pragma once

#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "serve/served_model.h"

namespace vitrine {

enum class MessagesRoute : std::uint8_t { answer, count };

/// The body of the chat that says what the body of a Messages request says; schemas keep the order of their members.
/// Of the model it reads the variables of the template and what happens to unknown fields. A request to count needs no
/// `max_tokens`. Throws RequestError, which names the field of `body`; what parse_chat() checks, such as the ranges of
/// numbers, is not checked here.
std::string chat_body_of(const ServedModel& model, std::string_view body, MessagesRoute route);

/// The messages of a chat: of its `system` text, if any, and of its `messages`. Several in a row of one role become
/// one.
OrderedJson chat_messages_of(RequestFields& fields, const OrderedJson& body);

}  // namespace vitrine
