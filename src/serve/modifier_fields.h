// The fields of requests that choose a model, adapters and control vectors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pass/modifiers.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// What changes the texts of a request.
struct ChosenModifiers {
  std::optional<ModifierList> list{};    ///< None: what changes all requests.
  std::shared_ptr<const Model> model{};  ///< With the head of an adapter that replaces it; null: the server's own.
};

/// A name of the server's model, or MODEL:ADAPTER with an adapter of it.
struct ChosenModel {
  std::string name;  ///< As the client wrote it; the first one if it wrote none.
  std::optional<NamedAdapter> adapter{};

  /// What changes a request that chooses nothing else.
  ChosenModifiers modifiers(const ServedModel& model) const;
};

/// Nullopt if there is no such model or adapter.
std::optional<ChosenModel> find_model(const ServedModel& model, std::string_view name);
/// All names: those of the model, and its first one with each adapter.
std::vector<std::string> model_names(const ServedModel& model);
/// Checks the field `model`. Throws RequestError.
ChosenModel read_model(const ServedModel& model, RequestFields& fields);

/// Attaches the server's dictionaries (`vitrine serve --sae`), so that the values at their sites are among those that
/// the request reads and changes. The field `sae_use` says what they do. Throws RequestError for another value, and if
/// the server has no dictionaries.
void read_dictionaries(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers);

/// Adds what the fields `adapters` and `controls`, `[{"name", "scale"}]` and `[{"name", "scale", "layers"}]`, choose,
/// in their order. A scale and layers replace those of the server. Returns whether there are such fields. Throws
/// RequestError, also for a second adapter that replaces the head.
bool read_modifiers(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers);

}  // namespace vitrine
