#include "serve/model_choice.h"

#include "base/nearest.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {
namespace {

/// The model of a name that a body has. A model is not loaded for an adapter that it does not have.
const ModelEntry& asked_by_name(ModelRegistry& models, const std::string& name) {
  const std::string tag = ":latest";  // which Ollama's clients add to names or leave out
  const std::string other = name.ends_with(tag) ? name.substr(0, name.size() - tag.size()) : name + tag;
  for (const std::string& known : {name, other}) {
    const ModelEntry* const source = models.find(known);
    if (source == nullptr) continue;
    const std::string adapter(source->adapter_in(known));
    if (adapter.empty() || std::ranges::count(adapters_of(models, *source), adapter) > 0) return *source;
  }
  refuse_model(models, name);
}

}  // namespace

void refuse_model(ModelRegistry& models, std::string_view name) {
  std::vector<std::string> known = models.names();
  if (const ModelEntry* const source = models.find(name)) {
    for (const std::string& adapter : adapters_of(models, *source)) known.push_back(source->name + ":" + adapter);
  }
  throw RequestError(kUnknownModel, "model", "the model \"{}\" does not exist{}", name, did_you_mean(name, known));
}

const ModelEntry& model_named(ModelRegistry& models, std::string_view name) {
  const ModelEntry* const source = models.find(name);
  if (source == nullptr) refuse_model(models, name);
  return *source;
}

const ModelEntry& asked_model(ModelRegistry& models, std::string_view body) {
  if (models.size() == 1 || body.empty()) return model_named(models, "");
  const Json json = parse_body(body);
  for (const char* const field : {"model", "name"}) {
    if (json.contains(field) && json[field].is_string()) return asked_by_name(models, json[field].get<std::string>());
  }
  return model_named(models, "");
}

std::vector<std::string> adapters_of(ModelRegistry& models, const ModelEntry& source) {
  const auto use = models.look_at(source);
  if (!use) return source.adapters;
  const ServedModifiers* const modifiers = use->model().served().modifiers;
  return modifiers != nullptr ? modifiers->named.adapter_names() : std::vector<std::string>{};
}

}  // namespace vitrine
