// Many runs of one text, each with its own changes to values, as segments of shared passes.
//
// Each run has the bits that it has alone, because the bits of a row depend on its segment only. What no change can
// reach is not computed again: a run begins at the layer of its first change, from the stream of the unchanged run, and
// at the position of its first change, after the keys and values of the unchanged run.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/frozen_sites.h"
#include "inspect/text_pass.h"

namespace vitrine {

/// A change of one value of a run. `change` modifies it in place: the rows `[n, …]` from position `first` on, or
/// `[H, n, S]`; of sites of the head only the row of the run's logits.
struct SiteEdit {
  SiteId site;  ///< Without a segment.
  std::function<void(const Tensor& own, std::int64_t first)> change;
  std::int64_t position = 0;  ///< It changes no row before this one.
};

using Edits = std::vector<SiteEdit>;

/// Receives the logits `[vocab_size]` of run `run` at the position.
using ReceiveRun = std::function<void(std::size_t run, std::span<const float> logits)>;

class EditedRuns {
 public:
  /// Runs the text once without changes, and keeps its states. `position`: that of the logits. Keeps references to its
  /// arguments. Throws as text_pass() does.
  EditedRuns(const GenerateContext& context, const Tokens& tokens, std::int64_t position);

  /// From now on, the sites that the globs select keep their values of the unchanged run, before the changes of a run.
  /// Throws as CleanRun's constructor.
  void freeze(const std::vector<std::string>& globs);

  /// Runs the text once for each of `runs`. Throws NotFinite if a change makes a value infinite or NaN.
  void run(std::span<const Edits> runs, const ReceiveRun& receive);

 private:
  struct Group;
  bool can_share(const Edits& run) const;
  void run_group(const Group& group, const ReceiveRun& receive);
  Pass make_pass(const Group& group, Arena& arena, std::vector<std::int32_t>& ids);

  const GenerateContext& context_;
  const Tokens& tokens_;
  std::int64_t position_;
  std::vector<std::vector<float>> streams_;  // resid_pre of each layer; empty if no run can begin later
  std::optional<KvCache> cache_;             // of the unchanged run, if all layers hold all positions
  std::vector<KvCache> caches_;              // of the runs of a pass
  std::optional<FrozenValues> frozen_{};
};

}  // namespace vitrine
