// Which models `vitrine serve` offers: MODEL, and those of --models.
#pragma once

#include <vector>

#include "cli/opened_model.h"
#include "serve/model_registry.h"

namespace vitrine::cli {

struct ServedList {
  std::vector<ModelEntry> models{};  ///< MODEL first.
  RegistryConfig limits{};
};

/// Opens MODEL, and reads what the headers of the others say. Throws what opening MODEL
/// throws, and as read_model_list(). A model of a list whose headers cannot be read is listed with its error.
ServedList list_models(const ServeOptions& options, SharedRounds rounds);

}  // namespace vitrine::cli
