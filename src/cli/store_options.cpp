#include "cli/store_options.h"

#include "cli/output.h"

namespace vitrine::cli {

void add_store(Command& command, StoreOptions& own, const std::string& name) {
  add_file(command, "--" + name, own.store_folder,
           "Keep what the model has read in this folder, for prompts that begin alike in later runs; it has texts, and "
           "nobody else can read it")
      ->type_name("DIR");
  command
      .add_option(fmt::format("--{}-size", name), own.store_size,
                  "The size of that folder, such as 500M; what was not used for the longest time leaves (default: 8G)")
      ->type_name("SIZE");
}

std::shared_ptr<PrefixStore> open_store(const StoreOptions& own, const std::string& name) {
  const std::int64_t bytes = bytes_in(own.store_size, fmt::format("--{}-size", name));
  if (own.store_folder.empty()) return nullptr;
  return std::make_shared<PrefixStore>(own.store_folder, bytes, note);
}

OpenedStore::OpenedStore(const StoreOptions& own, const std::string& name, const Session& session,
                         GenerateContext& context)
    : store_(open_store(own, name)) {
  if (store_ != nullptr) context.store = &of_model_.emplace(*store_, session.checkpoint, context);
}

}  // namespace vitrine::cli
