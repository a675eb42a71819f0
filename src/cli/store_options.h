// The options of the prefix store, which the commands share that generate texts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options.h"
#include "generate/model_store.h"
#include "generate/prefix_cache.h"

namespace vitrine::cli {

struct StoreOptions {
  std::string store_folder{};  ///< "": there is no store.
  std::string store_size = "8G";
};
/// Adds --NAME and --NAME-size.
void add_store(Command& command, StoreOptions& own, const std::string& name);

/// The store of a folder; null without one. Its notes go to stderr. `name`: of the option, for errors. Throws as
/// PrefixStore does.
std::shared_ptr<PrefixStore> open_store(const StoreOptions& own, const std::string& name);

/// The store of a command that runs one model.
class OpenedStore {
 public:
  /// Lets the sequences of `context` use the store, if there is one. Throws as open_store() and ModelStore do.
  OpenedStore(const StoreOptions& own, const std::string& name, const Session& session, GenerateContext& context);

 private:
  std::shared_ptr<PrefixStore> store_;
  std::optional<ModelStore> of_model_;
};

}  // namespace vitrine::cli
