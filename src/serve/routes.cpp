#include "serve/routes.h"

#include <algorithm>

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
std::shared_ptr<PendingReply> trace(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_v1(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_v2(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_texts(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> score_pairs(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> classify(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> predict(const ServedModel& model, const RouteRequest& request);
}  // namespace routes

namespace {

constexpr Door kMessagesDoor{"messages", messages_error, "/v1/messages"}, kResponsesDoor{"responses"},
    kOllamaDoor{"ollama", ollama::error_json, "/api/"};

}  // namespace

const Door& door_of(std::string_view path) {
  for (const Door* const door : {&kMessagesDoor, &kOllamaDoor}) {
    if (path.starts_with(door->paths)) return *door;
  }
  const Route* const route = find_route(path);
  return route != nullptr ? route->door : kMainDoor;
}

std::vector<std::string> door_names() {
  std::vector<std::string> names;
  for (const Door& door : {kMessagesDoor, kResponsesDoor, kOllamaDoor}) names.emplace_back(door.name);
  return names;
}

const Route* find_route(std::string_view path) {
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
      {"POST", "/v1/rerank", Route::kServersLimit, routes::rerank_v1},
      {"POST", "/v2/rerank", Route::kServersLimit, routes::rerank_v2},
      {"POST", "/rerank", Route::kServersLimit, routes::rerank_texts},
      {"POST", "/v1/score", Route::kServersLimit, routes::score_pairs},
      {"POST", "/classify", Route::kServersLimit, routes::classify},
      {"POST", "/v1/classify", Route::kServersLimit, routes::classify},
      {"POST", "/predict", Route::kServersLimit, routes::predict},
      {"POST", "/v1/load_lora_adapter", Route::kServersLimit, routes::load_adapter, Access::admin},
      {"POST", "/v1/unload_lora_adapter", Route::kServersLimit, routes::unload_adapter, Access::admin},
      {"POST", "/tokenize", Route::kServersLimit, routes::tokenize},
      {"POST", "/detokenize", Route::kServersLimit, routes::detokenize},
      {"GET", "/tokenizer_info", Route::kNoBody, routes::tokenizer_info},
      {"POST", "/apply-template", Route::kServersLimit, routes::apply_template},
  };
  const auto at = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& route) {
    const bool has_name = route.path.size() > 1 && route.path.ends_with('/');
    return has_name ? path.starts_with(route.path) && path.size() > route.path.size() : path == route.path;
  });
  return at == std::end(kRoutes) ? nullptr : at;
}

}  // namespace vitrine
