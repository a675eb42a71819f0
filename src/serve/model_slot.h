// A part of ModelRegistry: a model as the registry sees it.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "serve/model_registry.h"

namespace vitrine {

/// A model as the registry sees it; under the registry's mutex.
struct ModelRegistry::Slot {
  explicit Slot(const ModelEntry& s) : source(s) {}

  enum class Files : std::uint8_t { unknown, being_prepared, prepared };

  const ModelEntry& source;
  ModelSummary summary = source.summary;
  std::string summary_error = source.error;  // why there is none
  ModelState state = ModelState::unloaded;
  std::unique_ptr<LoadedModel> model{};  // null: it is not in memory, or is about to leave
  std::optional<RequestError> error{};   // of the last load
  bool is_leaving = false;               // no use begins
  bool is_wanted = source.preloads;      // although nobody waits for it
  std::int64_t n_uses = 0, n_loads = 0, n_unloads = 0, created = 0;
  ServerClock::time_point last_asked{}, last_used{}, last_failed{}, wanted_since{};
  std::list<std::weak_ptr<Wish>> wishes{};  // in the order of their arrival
  Files files = source.prepare ? Files::unknown : Files::prepared;
  std::exception_ptr failure{};  // of the preparation
  std::thread preparation{};

  /// Whatever its state was before; what is loaded next is prepared anew.
  void end_loading(ModelState now) {
    state = now;
    files = source.prepare ? Files::unknown : Files::prepared;
  }
  bool is_idle() const { return state == ModelState::loaded && n_uses == 0; }
  std::int64_t bytes() const { return summary.bytes + summary.draft_bytes; }
};

}  // namespace vitrine
