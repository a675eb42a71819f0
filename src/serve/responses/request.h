// Requests of OpenAI's Responses interface (https://platform.openai.com/docs/api-reference/responses) as those of its
// chats, which have all that they say.
#pragma once

#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "serve/responses/tools.h"
#include "serve/served_model.h"

namespace vitrine {

/// A request, translated.
struct ResponsesRequest {
  std::string chat_body{};  ///< The body of the chat that says the same; schemas keep the order of their members.
  ResponsesTools tools{};
  OrderedJson repeated = OrderedJson::object();  ///< The fields that the response repeats.
  bool encrypts = false;                         ///< Reasonings also have the field `encrypted_content`.
};

/// Of the model it reads the variables of the template and what happens to unknown fields. Throws RequestError, which
/// names the field of `body`; what parse_chat() checks, such as the ranges of numbers, is not checked here.
ResponsesRequest read_responses_request(const ServedModel& model, std::string_view body);

/// What this interface calls a field of a chat; "": the same.
std::string_view name_in_responses(std::string_view field_of_chat);

/// The messages of a chat: of the `instructions`, if any, and of the `input`. Reasonings, a text and calls of the
/// assistant become one message.
OrderedJson responses_messages_of(RequestFields& fields);

}  // namespace vitrine
