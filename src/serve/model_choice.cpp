#include "serve/model_choice.h"

#include "base/nearest.h"
#include "serve/request_fields.h"

namespace vitrine {

void refuse_model(const ModelRegistry& models, std::string_view name) {
  throw RequestError(kUnknownModel, "model", "the model \"{}\" does not exist{}", name,
                     did_you_mean(name, models.names()));
}

const ModelEntry& model_named(const ModelRegistry& models, std::string_view name) {
  const ModelEntry* const source = models.find(name);
  if (source == nullptr) refuse_model(models, name);
  return *source;
}

const ModelEntry& asked_model(const ModelRegistry& models, std::string_view body) {
  if (models.size() == 1 || body.empty()) return model_named(models, "");
  const Json json = parse_body(body);
  for (const char* const field : {"model", "name"}) {
    if (json.contains(field) && json[field].is_string()) return model_named(models, json[field].get<std::string>());
  }
  return model_named(models, "");
}

}  // namespace vitrine
