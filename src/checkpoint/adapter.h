// Adapters for a model: their matrices, bound to its linear maps.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/adapter_file.h"
#include "checkpoint/load.h"
#include "parallel/thread_pool.h"
#include "pass/adapter.h"

namespace vitrine {

/// Opens an adapter of either format for a base of any format. Its modules are found by the names of the family's
/// tables. Throws as open_adapter does; BadCheckpoint, naming it, for a module that the base does not have or that has
/// another shape, Unsupported for one that adapters cannot change.
std::shared_ptr<const Adapter> load_adapter(const std::string& path, const Checkpoint& base, ThreadPool& pool);
std::shared_ptr<const Adapter> bind_adapter(AdapterFile file, const Checkpoint& base, ThreadPool& pool);

/// The weight of a map: that of the embedding, if the head is tied to it.
const Param& weight_of(const Model& model, std::string_view name);

}  // namespace vitrine
