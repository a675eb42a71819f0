// A model that a server offers: its names, what its headers say, and how it is loaded.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/metrics.h"

namespace vitrine {

class Scheduler;
struct ServedModel;

/// A model in memory, with all that its requests need. Destroyed after its scheduler has left the loop.
class LoadedModel {
 public:
  LoadedModel() = default;
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
  virtual ~LoadedModel() = default;

  virtual const ServedModel& served() const = 0;
  virtual const std::shared_ptr<Scheduler>& scheduler() const = 0;  ///< Not null.
};

/// What is known of a model without its weights.
struct ModelSummary {
  std::string family{};  ///< model_type of the family; "" if it is not known.
  std::int64_t max_seq_len = 0, n_parameters = 0;
  std::int64_t bytes = 0;        ///< Of its weights in memory.
  std::int64_t draft_bytes = 0;  ///< Of those of its draft model.
  std::string quantization{};    ///< The types of its weights, such as "bf16" or "q4_k, q6_k".
  std::int64_t modified = 0;     ///< Unix time of its last change; 0: it is not known.
};

/// A model that can be served.
struct ModelEntry {
  std::string name;
  std::vector<std::string> aliases{};
  std::vector<std::string> adapters{};  ///< Those that it has when it is loaded.
  ModelSummary summary{};
  std::string error{};  ///< Why it has no summary; "": it has one. It can be asked for all the same.
  std::optional<std::chrono::duration<double>> ttl{};  ///< Else that of the registry. 0: it never leaves.
  bool preloads = false;                               ///< It is loaded without a request.
  std::string where = "models";                        ///< In errors, such as "models.toml:12".
  /// Fetches what load() needs, on a thread of its own before each load, and returns what the headers of that say.
  /// Null: there is nothing to fetch. Throws what becomes the error of those who wait; soon, if the server is to end.
  std::function<ModelSummary()> prepare{};
  /// On the registry's thread. Throws as prepare().
  std::function<std::unique_ptr<LoadedModel>()> load{};
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();  ///< They outlive what is loaded.

  bool has_name(std::string_view given) const { return given == name || std::ranges::count(aliases, given) > 0; }
  /// What follows NAME: in a name, for a name or an alias of the model; "" if nothing does.
  std::string_view adapter_in(std::string_view given) const;
};

enum class ModelState : std::uint8_t { unloaded, loading, loaded, failed };
/// "unloaded", …
std::string_view name_of(ModelState state);

}  // namespace vitrine
