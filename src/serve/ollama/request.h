// Requests of Ollama's interface (https://docs.ollama.com/api) as those of OpenAI's chats, completions and vectors,
// which have all that they say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"
#include "serve/completion_request.h"
#include "serve/embeddings.h"
#include "serve/served_model.h"

namespace vitrine::ollama {

/// The name of the model, in the field `model` or `name`: one of the server's, with or without ":latest".
struct ModelName {
  std::string asked;  ///< As the client wrote it.
  std::string own;    ///< Of the server.
};
/// Throws RequestError for an unknown name.
ModelName read_name(const ServedModel& model, RequestFields& fields);

/// A request for a text.
struct TextRequest {
  std::string model;             ///< As the client named it.
  bool has_message = false;      ///< The answer is a message: /api/chat.
  bool only_loads = false;       ///< There is nothing to answer.
  bool is_chat = false;          ///< `body` is that of a chat, not of a completion.
  bool returns_context = false;  ///< The answer has the ids of the prompt and the text.
  std::string body{};
  std::vector<std::int32_t> context{};  ///< Comes before the prompt.
};

/// The request that a body of /api/chat or /api/generate is. Of the model these read its names, the template and what
/// happens to unknown fields. Schemas keep the order of their members. They throw RequestError, which names the field
/// of `body`; what parse_chat() and parse_completion() check, such as the ranges of numbers, is not checked here.
TextRequest read_chat(const ServedModel& model, std::string_view body);
TextRequest read_generate(const ServedModel& model, std::string_view body);

/// Parses what there is to answer; `seed` is that of a request without one. Throws as parse_chat() does.
CompletionRequest parse(const ServedModel& model, const TextRequest& request, std::uint64_t seed);

/// The messages of a chat. A call without an id gets one, and a result without one that of its call: the first without
/// a result that has the name `tool_name`, else the first.
OrderedJson messages_of(RequestFields& fields, const OrderedJson& body);

/// A request for vectors.
struct VectorRequest {
  std::string model;           ///< As the client named it.
  bool is_single = false;      ///< /api/embeddings: the answer has one vector.
  EmbeddingRequest vectors{};  ///< Of no text: there is nothing to answer.
};
/// The bodies of /api/embed and /api/embeddings. Throw RequestError, and what the tokenizer throws.
VectorRequest read_embed(const ServedModel& model, std::string_view body);
VectorRequest read_embeddings(const ServedModel& model, std::string_view body);

}  // namespace vitrine::ollama
