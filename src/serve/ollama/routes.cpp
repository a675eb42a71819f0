// Ollama's interface: /api/chat, /api/generate, /api/embed, /api/embeddings, /api/version, and what it has to change
// models. A request is translated into one of OpenAI's; only what is written differs.
#include <random>

#include "serve/ollama/reply.h"
#include "serve/ollama/request.h"
#include "serve/routes.h"

namespace vitrine {
namespace ollama {
namespace {

/// The version of Ollama whose interface this is: clients ask whether it has what they need.
constexpr const char* kVersion = "0.12.11";

/// A response without work.
class Ready : public PendingReply {
 public:
  explicit Ready(std::string body) : body_(std::move(body)) {}

  void submit(Scheduler&) override {}
  void cancel() override {}
  JobTimes times() const override { return {}; }
  Usage usage() const override { return {}; }
  bool take() override { return true; }
  bool has_ended() const override { return true; }
  HttpReply reply() override { return {200, body_}; }

 private:
  std::string body_;
};

template <class Read>
std::shared_ptr<PendingReply> text_of(Read read, const ServedModel& model, const RouteRequest& from) {
  const ServerClock::time_point start = ServerClock::now();
  TextRequest asked = read(model, from.body);
  if (asked.only_loads) return std::make_shared<Ready>(json_text(load_json(asked)));
  auto request = std::make_shared<const CompletionRequest>(parse(model, asked, std::random_device{}()));
  auto reply = std::make_unique<OllamaReply>(model, *request, std::move(asked), start);
  return texts_of(model, std::move(request), std::move(reply), from);
}

template <class Read>
std::shared_ptr<PendingReply> vectors_of_texts(Read read, const ServedModel& model, const RouteRequest& from) {
  const ServerClock::time_point start = ServerClock::now();
  VectorRequest asked = read(model, from.body);
  if (asked.vectors.texts.ids.empty()) return std::make_shared<Ready>(json_text(vectors_json(asked, {}, {})));
  EmbeddingRequest vectors = std::move(asked.vectors);
  asked.vectors = {};
  asked.vectors.texts.n_tokens = vectors.texts.n_tokens;
  const auto write = [asked = std::move(asked), start](
                         const EmbeddingRequest&, const std::vector<std::vector<float>>& values,
                         const JobTimes& times) { return vectors_json(asked, values, durations_of(start, times)); };
  return vectors_of(model, std::move(vectors), from, write);
}

}  // namespace
}  // namespace ollama

namespace routes {

HttpReply ollama_root(const ServerStatus&) { return {200, "Ollama is running", "text/plain; charset=utf-8"}; }

HttpReply ollama_version(const ServerStatus&) { return {200, json_text(Json{{"version", ollama::kVersion}})}; }

std::shared_ptr<PendingReply> ollama_chat(const ServedModel& model, const RouteRequest& request) {
  return ollama::text_of(ollama::read_chat, model, request);
}

std::shared_ptr<PendingReply> ollama_generate(const ServedModel& model, const RouteRequest& request) {
  return ollama::text_of(ollama::read_generate, model, request);
}

std::shared_ptr<PendingReply> ollama_embed(const ServedModel& model, const RouteRequest& request) {
  return ollama::vectors_of_texts(ollama::read_embed, model, request);
}

std::shared_ptr<PendingReply> ollama_embeddings(const ServedModel& model, const RouteRequest& request) {
  return ollama::vectors_of_texts(ollama::read_embeddings, model, request);
}

Json ollama_change(const ServedModel&, const RouteRequest&) {
  throw RequestError(kForbidden, "path", "the server has the model with which it was started, and changes none");
}

}  // namespace routes

}  // namespace vitrine
