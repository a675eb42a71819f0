// /v1/responses and /v1/responses/input_tokens: OpenAI's Responses interface. A request is translated into one of its
// chats; only what is written differs.
#include <ctime>
#include <random>

#include "serve/responses/reply.h"
#include "serve/responses/request.h"
#include "serve/routes.h"

namespace vitrine {
namespace {

/// The chat of a request. Errors name fields as this interface does.
CompletionRequest chat_request_of(const ServedModel& model, const ResponsesRequest& asked, std::uint64_t seed) {
  try {
    return parse_chat(model, asked.chat_body, seed);
  } catch (const RequestError& e) {
    const std::string_view name = name_in_responses(e.where());
    if (name.empty()) throw;
    throw e.renamed(std::string(name));
  }
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> answer_responses(const ServedModel& model, const RouteRequest& from) {
  ResponsesRequest asked = read_responses_request(model, from.body);
  auto request = std::make_shared<const CompletionRequest>(chat_request_of(model, asked, std::random_device{}()));
  auto reply = std::make_unique<ResponsesReply>(model, *request, std::move(asked), from.id, std::time(nullptr));
  return texts_of(model, std::move(request), std::move(reply), from);
}

Json count_input_tokens(const ServedModel& model, const RouteRequest& from) {
  const CompletionRequest request = chat_request_of(model, read_responses_request(model, from.body), 0);
  return {{"object", "response.input_tokens"}, {"input_tokens", request.prompts.front().ids.size()}};
}

}  // namespace routes
}  // namespace vitrine
