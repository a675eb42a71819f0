// Which model of a server a request asks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/model_registry.h"

namespace vitrine {

/// The model of a name or an alias, with :ADAPTER after it or not; "": the first. Throws RequestError.
const ModelEntry& model_named(ModelRegistry& models, std::string_view name);
[[noreturn]] void refuse_model(ModelRegistry& models, std::string_view name);

/// The model that a body names in `model`, or as Ollama's clients do in `name`; the first one without a name. If there
/// is only one, the body is not looked at: what answers the request checks its names. Throws RequestError, also for a
/// body that is no JSON object.
const ModelEntry& asked_model(ModelRegistry& models, std::string_view body);

/// The names of a model's adapters. Those of a model that is loaded may have changed.
std::vector<std::string> adapters_of(ModelRegistry& models, const ModelEntry& source);

}  // namespace vitrine
