// A model of `vitrine serve` in memory, with all that its requests need.
#pragma once

#include <memory>
#include <optional>

#include "cli/serve_options.h"
#include "generate/prefix_cache.h"
#include "serve/model_registry.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"

namespace vitrine::cli {

/// What the rounds of all models share.
struct SharedRounds {
  ThreadPool& pool;
  RoundLoop& loop;
  std::shared_ptr<PrefixStore> store{};  ///< Null: there is none.
  bool needs_store = true;               ///< A model that cannot use the store is an error; else it goes without.
  std::vector<std::string> clients{};    ///< As in SchedulerConfig.
};

class ServedFile : public LoadedModel {
 public:
  /// Opens the model that the options describe, with their names. Throws what opening a model throws, and as ModelStore
  /// does.
  ServedFile(const ServeOptions& options, const SharedRounds& rounds, std::int64_t kv_bytes, Metrics& metrics);

  /// Reads the weights from the disk, so that no round has to. Ends early at an interrupt.
  void read_ahead() const;

  const ServedModel& served() const override { return served_; }
  const std::shared_ptr<Scheduler>& scheduler() const override { return scheduler_; }

 private:
  Session session_;
  std::optional<OpenedSpeculation> speculation_;
  std::optional<ChatFormat> chat_;
  ServedModel served_;
  ServedModifiers modifiers_;
  std::optional<KvPool> memory_;
  std::optional<PrefixCache> prefixes_;
  std::shared_ptr<PrefixStore> store_;
  std::optional<ModelStore> own_store_;
  std::shared_ptr<Scheduler> scheduler_;
};

/// What the headers of a model's files say. Throws as load_checkpoint().
ModelSummary summary_of(const ServeOptions& options, const std::string& path);

}  // namespace vitrine::cli
