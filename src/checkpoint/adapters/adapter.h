// Adapters for a model: their matrices, bound to its linear maps.
#pragma once

#include <map>
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
  /// Parameters of the head for labels that replace the base's, by our names (modules_to_save).
  std::map<std::string, Param> saved;
};

/// Opens an adapter of either format for a base of any format. Its modules are found by the names of the family's
/// tables. Throws as open_adapter does; BadCheckpoint, naming it, for a module that the base does not have or that has
/// another shape, Unsupported for a file that replaces a weight of the base. If it
/// `may_replace` those of the head for labels, with_saved_parameters() applies them.
std::shared_ptr<const LoadedAdapter> load_adapter(const std::string& path, const Checkpoint& base, ThreadPool& pool,
                                                  bool may_replace = false);

/// The name of a parameter of the head for labels in the base's files, by ours; "": there is none.
std::string name_of_head_tensor(const Checkpoint& base, const std::string& ours);

/// The base with the parameters that the adapter replaces.
Checkpoint with_saved_parameters(const Checkpoint& base, const LoadedAdapter& adapter);

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
