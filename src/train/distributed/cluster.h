// What the ranks of a run report about each step: ranks.jsonl, slow ranks (stragglers), and the summary at the end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "metrics/metrics.h"
#include "ranks/ranks.h"

namespace vitrine {

/// What a rank reports after a step.
struct RankReport {
  enum Stop : std::int32_t { go_on = 0, save_and_end = 1, interrupt = 2 };

  double step_s = 0;
  double communicate_s = 0;  ///< While a message was under way.
  double wait_s = 0;         ///< While the rank waited for messages.
  std::int64_t bytes_sent = 0;
  std::int64_t rss_bytes = 0, peak_rss_bytes = 0;
  std::int32_t stop = go_on;  ///< What a signal has asked of this rank.

  double compute_s() const { return step_s - wait_s; }
};

/// Rank 0 writes FOLDER/ranks.jsonl: a line per rank for every line of metrics.
///
///   {"step":10,"rank":1,"host":"b","compute_s":…,"communicate_s":…,"wait_s":…,"bytes_sent":…,"rss_bytes":…}
class ClusterLog {
 public:
  explicit ClusterLog(Ranks& ranks) : ranks_(ranks) {}

  /// Rank 0: begins the file, without the lines of steps beyond `steps_done`. Throws BadInput as MetricsLog does.
  void open(const std::string& folder, std::int64_t steps_done);
  /// All ranks: exchanges what they report about a step of `step_s` seconds.
  void meet(double step_s, RankReport::Stop stop);
  /// What the ranks agree to do: the strongest request of any.
  RankReport::Stop agreed() const;
  /// Rank 0: writes the lines of the last step. Calls `tell` if a rank has been slow for ten lines.
  void write(std::int64_t step, const std::function<void(const std::string&)>& tell);
  /// The value of "cluster" in the program's result.
  Json summary(const std::string& shard) const;

 private:
  Ranks& ranks_;
  std::vector<RankReport> reports_;  // of the last step, by rank
  std::vector<int> slow_lines_;      // in a row, by rank
  std::optional<AppendedFile> lines_;
};

}  // namespace vitrine
