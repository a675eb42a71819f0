// The log of a run: metrics.jsonl, one JSON object per line, and a TensorBoard event file with the same numbers.
//
//   {"step":10,"time":1767225600.25,"loss":4.123,"lr":0.001,"grad_norm":1.5}
//
// step is the number of steps done; time is in seconds since 1970; numbers that are not finite are null. A line is one
// write to the file, so if a process is killed, only the last line can be incomplete.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "metrics/event_file.h"

namespace vitrine {

/// A file that grows. Throws BadInput if it cannot be written, OutOfCapacity if the disk is full.
class AppendedFile {
 public:
  explicit AppendedFile(std::string path);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  ~AppendedFile();

  void append(std::string_view piece);

 private:
  std::string path_;
  int fd_ = -1;
};

class MetricsLog {
 public:
  /// Removes the lines of steps beyond `steps_done` from the folder's log, and an invalid last line. Rewrites the event
  /// file from the remaining lines. Throws BadInput for any other line that is not a line of metrics, and as `report`
  /// does; the files are then unchanged.
  MetricsLog(const std::string& folder, std::int64_t steps_done, const ReportProgress& report = {});

  void write(std::int64_t step, std::span<const Metric> metrics);

 private:
  AppendedFile lines_, events_;
};

/// The curve of each metric: (step, value) pairs in the order of the file.
struct MetricCurves {
  std::string name;  ///< Of the run's folder.
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
};

/// Reads the metrics of a run: its folder, or the file itself. Ignores an invalid last line. Throws BadInput for a file
/// that is not a log.
MetricCurves read_metrics(const std::string& run);

}  // namespace vitrine
