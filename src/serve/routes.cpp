#include "serve/routes.h"

#include "serve/api_errors.h"
#include "serve/messages/reply.h"
#include "serve/ollama/reply.h"

namespace vitrine {

/// Each is in the file of its endpoint.
namespace routes {
HttpReply health(const ServerStatus& status);
HttpReply metrics(const ServerStatus& status);
Json models(ModelRegistry& models, const RouteRequest& request);
Json one_model(ModelRegistry& models, const RouteRequest& request);
Json load_model(const ServedModel& model, const RouteRequest& request);
Json unload_model(ModelRegistry& models, const RouteRequest& request);
Json tokenize(const ServedModel& model, const RouteRequest& request);
Json detokenize(const ServedModel& model, const RouteRequest& request);
Json tokenizer_info(const ServedModel& model, const RouteRequest& request);
Json apply_template(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> complete(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> complete_chat(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> infill(const ServedModel& model, const RouteRequest& request);
Json count_tokens(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> answer_messages(const ServedModel& model, const RouteRequest& request);
Json count_input_tokens(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> answer_responses(const ServedModel& model, const RouteRequest& request);
HttpReply ollama_root(const ServerStatus& status);
HttpReply ollama_version(const ServerStatus& status);
Json ollama_tags(ModelRegistry& models, const RouteRequest& request);
Json ollama_ps(ModelRegistry& models, const RouteRequest& request);
Json ollama_show(const ServedModel& model, const RouteRequest& request);
Json ollama_change(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> ollama_chat(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> ollama_generate(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> ollama_embed(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> ollama_embeddings(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> embed(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> load_adapter(const ServedModel& model, const RouteRequest& request);
Json unload_adapter(const ServedModel& model, const RouteRequest& request);
Json feature(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> trace(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_v1(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_v2(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_texts(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> score_pairs(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> classify(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> predict(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> pool(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> cohere_embed_v1(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> cohere_embed_v2(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> tei_embed(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> tei_embed_all(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> tei_embed_sparse(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> tei_similarity(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> tei_root(const ServedModel& model, const RouteRequest& request);
Json tei_decode(const ServedModel& model, const RouteRequest& request);
Json tei_info(const ServedModel& model, const RouteRequest& request);
}  // namespace routes

namespace {

constexpr Door kMessagesDoor{"messages", messages_error, "/v1/messages"}, kResponsesDoor{"responses"},
    kOllamaDoor{"ollama", ollama::error_json, "/api/"}, kTeiDoor{"tei", tei_error, {}, tei_status},
    kCohereDoor{"cohere", cohere_error}, kJinaDoor{"jina", jina_error, {}, jina_status};

}  // namespace

const Door& door_of(std::string_view path, std::string_view method) {
  for (const Door* const door : {&kMessagesDoor, &kOllamaDoor}) {
    if (path.starts_with(door->paths)) return *door;
  }
  const Route* const route = find_route(path, method);
  return route != nullptr ? route->door : kMainDoor;
}

std::vector<std::string> door_names() {
  std::vector<std::string> names;
  for (const Door& door : {kMessagesDoor, kResponsesDoor, kOllamaDoor, kTeiDoor, kCohereDoor, kJinaDoor}) {
    names.emplace_back(door.name);
  }
  return names;
}

const Route* find_route(std::string_view path, std::string_view method) {
  static const Route kRoutes[] = {
      {"GET", "/health", Route::kNoBody, routes::health, Access::open},
      {"GET", "/metrics", Route::kNoBody, routes::metrics},
      {"GET", "/v1/models", Route::kNoBody, routes::models},
      {"POST", "/v1/models/load", Route::kServersLimit, routes::load_model, Access::admin},
      {"POST", "/v1/models/unload", Route::kServersLimit, routes::unload_model, Access::admin},
      {"GET", "/v1/models/", Route::kNoBody, routes::one_model},
      {"POST", "/v1/completions", Route::kServersLimit, routes::complete},
      {"POST", "/v1/chat/completions", Route::kServersLimit, routes::complete_chat},
      {"POST", "/infill", Route::kServersLimit, routes::infill},
      {"POST", "/v1/messages", Route::kServersLimit, routes::answer_messages, Access::key, kMessagesDoor},
      {"POST", "/v1/messages/count_tokens", Route::kServersLimit, routes::count_tokens, Access::key, kMessagesDoor},
      {"POST", "/v1/responses", Route::kServersLimit, routes::answer_responses, Access::key, kResponsesDoor},
      {"POST", "/v1/responses/input_tokens", Route::kServersLimit, routes::count_input_tokens, Access::key,
       kResponsesDoor},
      {"GET", "/", Route::kNoBody, routes::ollama_root, Access::open, kOllamaDoor},
      {"GET", "/api/version", Route::kNoBody, routes::ollama_version, Access::key, kOllamaDoor},
      {"GET", "/api/tags", Route::kNoBody, routes::ollama_tags, Access::key, kOllamaDoor},
      {"GET", "/api/ps", Route::kNoBody, routes::ollama_ps, Access::key, kOllamaDoor},
      {"POST", "/api/show", Route::kServersLimit, routes::ollama_show, Access::key, kOllamaDoor},
      {"POST", "/api/chat", Route::kServersLimit, routes::ollama_chat, Access::key, kOllamaDoor},
      {"POST", "/api/generate", Route::kServersLimit, routes::ollama_generate, Access::key, kOllamaDoor},
      {"POST", "/api/embed", Route::kServersLimit, routes::ollama_embed, Access::key, kOllamaDoor},
      {"POST", "/api/embeddings", Route::kServersLimit, routes::ollama_embeddings, Access::key, kOllamaDoor},
      {"POST", "/api/pull", Route::kServersLimit, routes::ollama_change, Access::key, kOllamaDoor},
      {"POST", "/api/push", Route::kServersLimit, routes::ollama_change, Access::key, kOllamaDoor},
      {"POST", "/api/create", Route::kServersLimit, routes::ollama_change, Access::key, kOllamaDoor},
      {"POST", "/api/copy", Route::kServersLimit, routes::ollama_change, Access::key, kOllamaDoor},
      {"DELETE", "/api/delete", Route::kServersLimit, routes::ollama_change, Access::key, kOllamaDoor},
      {"POST", "/v1/embeddings", Route::kServersLimit, routes::embed},
      {"POST", "/v1/trace", Route::kServersLimit, routes::trace},
      {"POST", "/v1/features", Route::kServersLimit, routes::feature},
      {"POST", "/v1/rerank", Route::kServersLimit, routes::rerank_v1, Access::key, kJinaDoor},
      {"POST", "/v2/rerank", Route::kServersLimit, routes::rerank_v2, Access::key, kCohereDoor},
      {"POST", "/v1/embed", Route::kServersLimit, routes::cohere_embed_v1, Access::key, kCohereDoor},
      {"POST", "/v2/embed", Route::kServersLimit, routes::cohere_embed_v2, Access::key, kCohereDoor},
      {"POST", "/rerank", Route::kServersLimit, routes::rerank_texts, Access::key, kTeiDoor},
      {"POST", "/embed", Route::kServersLimit, routes::tei_embed, Access::key, kTeiDoor},
      {"POST", "/embed_all", Route::kServersLimit, routes::tei_embed_all, Access::key, kTeiDoor},
      {"POST", "/embed_sparse", Route::kServersLimit, routes::tei_embed_sparse, Access::key, kTeiDoor},
      {"POST", "/similarity", Route::kServersLimit, routes::tei_similarity, Access::key, kTeiDoor},
      {"POST", "/predict", Route::kServersLimit, routes::predict, Access::key, kTeiDoor},
      {"POST", "/", Route::kServersLimit, routes::tei_root, Access::key, kTeiDoor},
      {"POST", "/decode", Route::kServersLimit, routes::tei_decode, Access::key, kTeiDoor},
      {"GET", "/info", Route::kNoBody, routes::tei_info, Access::key, kTeiDoor},
      {"POST", "/v1/score", Route::kServersLimit, routes::score_pairs},
      {"POST", "/score", Route::kServersLimit, routes::score_pairs},
      {"POST", "/classify", Route::kServersLimit, routes::classify},
      {"POST", "/v1/classify", Route::kServersLimit, routes::classify},
      {"POST", "/pooling", Route::kServersLimit, routes::pool},
      {"POST", "/v1/load_lora_adapter", Route::kServersLimit, routes::load_adapter, Access::admin},
      {"POST", "/v1/unload_lora_adapter", Route::kServersLimit, routes::unload_adapter, Access::admin},
      {"POST", "/tokenize", Route::kServersLimit, routes::tokenize},
      {"POST", "/detokenize", Route::kServersLimit, routes::detokenize},
      {"GET", "/tokenizer_info", Route::kNoBody, routes::tokenizer_info},
      {"POST", "/apply-template", Route::kServersLimit, routes::apply_template},
  };
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    const bool has_name = route.path.size() > 1 && route.path.ends_with('/');
    const bool is_it = has_name ? path.starts_with(route.path) && path.size() > route.path.size() : path == route.path;
    if (is_it && route.method == method) return &route;
    if (is_it && found == nullptr) found = &route;
  }
  return found;
}

}  // namespace vitrine
