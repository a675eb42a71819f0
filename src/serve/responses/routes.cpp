// /v1/responses and /v1/responses/input_tokens: OpenAI's Responses interface. A request is translated into one of its
// chats; only what is written differs.
#include <ctime>
#include <random>

#include "serve/responses/reply.h"
#include "serve/responses/request.h"
#include "serve/routes.h"

namespace vitrine::routes {

std::shared_ptr<PendingReply> answer_responses(const ServedModel& model, const RouteRequest& from) {
  ResponsesRequest asked = read_responses_request(model, from.body);
  auto request = std::make_shared<const CompletionRequest>(parse_chat(model, asked.chat_body, std::random_device{}()));
  auto reply = std::make_unique<ResponsesReply>(model, *request, std::move(asked), from.id, std::time(nullptr));
  return texts_of(model, std::move(request), std::move(reply), from);
}

Json count_input_tokens(const ServedModel& model, const RouteRequest& from) {
  const CompletionRequest request = parse_chat(model, read_responses_request(model, from.body).chat_body, 0);
  return {{"object", "response.input_tokens"}, {"input_tokens", request.prompts.front().ids.size()}};
}

}  // namespace vitrine::routes
