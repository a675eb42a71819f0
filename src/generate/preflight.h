// Whether a model can run, said before its weights are fetched.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/load.h"

namespace vitrine {

/// Why a model cannot run.
struct Obstacle {
  std::string where;          ///< The file, in the model's folder.
  std::string what;           ///< The key or tensor, and what is missing.
  std::string nearest;        ///< The family that is most similar; "" if none is.
  bool is_malformed = false;  ///< What cannot be read is no model: it may be wanted for something else.
};

/// What load_checkpoint() has against the model that fetch_headers() has copied to `path`; nothing if it runs. Throws
/// Interrupted and OutOfCapacity.
std::optional<Obstacle> find_obstacle(const std::string& path, const LoadOptions& options);

/// Throws Unsupported for a model that is well-formed and cannot run; not for an adapter or a control vector. For
/// HubAccess::check.
void refuse_obstacle(const std::string& path, const LoadOptions& options);

}  // namespace vitrine
