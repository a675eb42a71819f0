// --state and --save-state.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/state_file.h"
#include "cli/options.h"

namespace vitrine::cli {

/// The state files of a run.
class StateFiles {
 public:
  /// `state`: what the text continues; `save_state`: what is written at the end. Either may be absent. Throws as
  /// StateWriter does, and Unsupported for a model that is split.
  StateFiles(const Options& options, const Session& session, std::optional<std::string> state,
             const std::optional<std::string>& save_state);

  bool any() const { return state_ || writer_; }
  /// The cache with the tokens of `state`, if there is one, and space for `n_more`. Throws as read_state() does.
  std::shared_ptr<KvCache> open(const GenerateContext& context, std::int64_t n_more) const;
  /// Writes `save_state`, if it is given.
  void save(const GenerateContext& context, const KvCache& cache);

 private:
  std::optional<std::string> state_;
  std::optional<StateWriter> writer_;
};

}  // namespace vitrine::cli
