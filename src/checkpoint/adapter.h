// Adapters for a model: their matrices, bound to its linear maps.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/load.h"
#include "parallel/thread_pool.h"
#include "pass/adapter.h"

namespace vitrine {

/// Opens an adapter of either format for a base of any format. Its modules are found by the names of the family's
/// tables. Throws as open_adapter does; BadCheckpoint, naming it, for a module that the base does not have or that has
/// another shape, Unsupported for one that adapters cannot change.
std::shared_ptr<const Adapter> load_adapter(const std::string& path, const Checkpoint& base, ThreadPool& pool);

}  // namespace vitrine
