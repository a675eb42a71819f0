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

class ServedFile : public LoadedModel {
 public:
  /// Opens the model that the options describe, with their names. Its rounds use `pool`. Throws what opening a model
  /// throws.
  ServedFile(const ServeOptions& options, ThreadPool& pool, std::int64_t kv_bytes, Metrics& metrics, RoundLoop& loop);

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
  std::shared_ptr<Scheduler> scheduler_;
};

/// What the headers of a model's files say. Throws as load_checkpoint().
ModelSummary summary_of(const ServeOptions& options, const std::string& path);

}  // namespace vitrine::cli
