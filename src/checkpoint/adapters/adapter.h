// Adapters for a model: their matrices, bound to its linear maps.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/adapters/file.h"
#include "checkpoint/adapters/places.h"
#include "checkpoint/load.h"
#include "parallel/thread_pool.h"
#include "pass/adapter.h"

namespace vitrine {

/// An adapter from a file, with the modules that the file has.
struct LoadedAdapter : Adapter {
  AdapterFormat format = AdapterFormat::peft;
  bool rslora = false;
  std::vector<AdapterPlace> places;
};

/// Opens an adapter of either format for a base of any format. Its modules are found by the names of the family's
/// tables. Throws as open_adapter does; BadCheckpoint, naming it, for a module that the base does not have or that has
/// another shape, Unsupported for a file that replaces a weight of the base.
std::shared_ptr<const LoadedAdapter> load_adapter(const std::string& path, const Checkpoint& base, ThreadPool& pool);

/// Calls visit(param) for each matrix and vector of an adapter.
template <class Visit>
void for_each_matrix(const Adapter& adapter, Visit&& visit) {
  std::set<const Param*> seen;  // maps may share A
  for (const auto& [name, low] : adapter.maps) {
    if (seen.insert(low.a.get()).second) visit(*low.a);
    visit(low.b);
    if (low.magnitudes) visit(low.magnitudes->vector);
  }
}

/// The weight of a map: that of the embedding, if the head is tied to it.
const Param& weight_of(const Model& model, std::string_view name);

}  // namespace vitrine
