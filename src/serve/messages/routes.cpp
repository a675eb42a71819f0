// /v1/messages and /v1/messages/count_tokens: Anthropic's interface. A request is translated into one of OpenAI's
// chats; only what is written differs.
#include <random>

#include "serve/messages/reply.h"
#include "serve/messages/request.h"
#include "serve/routes.h"

namespace vitrine::routes {

std::shared_ptr<PendingReply> answer_messages(const ServedModel& model, const RouteRequest& from) {
  const std::string body = chat_body_of(model, from.body, MessagesRoute::answer);
  auto request = std::make_shared<const CompletionRequest>(parse_chat(model, body, std::random_device{}()));
  auto reply = std::make_unique<MessagesReply>(model, *request, from.id);
  return texts_of(model, std::move(request), std::move(reply), from);
}

Json count_tokens(const ServedModel& model, const RouteRequest& from) {
  const std::string body = chat_body_of(model, from.body, MessagesRoute::count);
  const CompletionRequest request = parse_chat(model, body, 0);
  return {{"input_tokens", request.prompts.front().ids.size()}};
}

}  // namespace vitrine::routes
