// The routes that need no weights: the server's state, and its models.
#include "serve/model_choice.h"
#include "serve/modifier_fields.h"
#include "serve/routes.h"

namespace vitrine {
namespace {

/// `parent`: the name of the model, of one of its adapters.
Json describe(const ModelStatus& status, const std::string& id, const Json& parent = nullptr) {
  const ModelEntry& source = *status.source;
  const ModelSummary& summary = status.summary;
  const auto known = [&](std::int64_t n) { return n > 0 ? Json(n) : Json(); };
  return {{"id", id},
          {"object", "model"},
          {"created", status.created},
          {"owned_by", "vitrine"},
          {"aliases", source.aliases},
          {"state", name_of(status.state)},
          {"parent", parent},
          {"max_model_len", known(summary.max_seq_len)},
          {"parameters", known(summary.n_parameters)},
          {"bytes", known(summary.bytes)},
          {"quantization", summary.quantization.empty() ? Json() : Json(summary.quantization)},
          {"error", status.error.empty() ? Json() : Json(status.error)}};
}

}  // namespace

namespace routes {

HttpReply health(const ServerStatus& status) {
  const bool is_ok = !status.is_loading && !status.is_draining;
  const Json json = {{"status", status.is_loading ? "loading" : status.is_draining ? "shutting down" : "ok"}};
  return {is_ok ? 200 : 503, json_text(json)};
}

HttpReply metrics(const ServerStatus& status) {
  std::vector<ModelMetrics> all;
  if (status.models != nullptr) {
    for (const ModelStatus& m : status.models->list()) {
      all.push_back({m.source->name, m.source->metrics.get(), m.n_loads, m.n_unloads});
    }
  }
  return {200, metrics_text(all), "text/plain; version=0.0.4"};
}

Json models(ModelRegistry& models, const RouteRequest&) {
  Json list = Json::array();
  for (const ModelStatus& status : models.list()) {
    const ModelEntry& source = *status.source;
    list.push_back(describe(status, source.name));
    for (const std::string& alias : source.aliases) list.push_back(describe(status, alias));
    for (const std::string& adapter : adapters_of(models, source)) {
      list.push_back(describe(status, source.name + ":" + adapter, source.name));
    }
  }
  return {{"object", "list"}, {"data", std::move(list)}};
}

Json one_model(ModelRegistry& models, const RouteRequest& request) {
  const ModelEntry& source = model_named(models, request.name);
  const std::string adapter(source.adapter_in(request.name));
  const ModelStatus status = models.status(source);
  if (adapter.empty()) return describe(status, request.name);
  if (std::ranges::count(adapters_of(models, source), adapter) == 0) refuse_model(models, request.name);
  return describe(status, request.name, request.name.substr(0, request.name.size() - adapter.size() - 1));
}

/// By the time of the call, the model has been loaded.
Json load_model(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  const ChosenModel chosen = read_model(model, fields);
  fields.finish();
  return {{"id", chosen.name}, {"object", "model"}, {"state", name_of(ModelState::loaded)}};
}

Json unload_model(ModelRegistry& models, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json);
  const std::string name = fields.needed_text("model");
  fields.finish();
  const ModelEntry& source = model_named(models, name);
  if (!source.has_name(name)) {
    throw RequestError(kInvalid, "model", "expected a model without an adapter, got {}", name);
  }
  models.unload(source);
  return {{"id", name}, {"object", "model"}, {"state", name_of(models.status(source).state)}};
}

}  // namespace routes

}  // namespace vitrine
