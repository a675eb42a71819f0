// What a run tells of itself: metrics.jsonl, one JSON object a line, and a TensorBoard event file with the same
// numbers.
//
//   {"step":10,"time":1767225600.25,"loss":4.123,"lr":0.001,"grad_norm":1.5}
//
// step counts the steps that were taken when the line was written; time is in seconds since 1970; numbers that are not
// finite are null. The trainer makes one MetricsLog in its folder when it begins (steps_done 0) or resumes (the step of
// its checkpoint), and calls write() every log.every steps, with val_loss and the like where they were computed. A line
// is one write to the file, so a process that is killed leaves whole lines but perhaps the last.
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

/// A file that grows by whole pieces. Throws BadInput where it cannot be written, OutOfCapacity where the disk is full.
class AppendedFile {
 public:
  explicit AppendedFile(std::string path);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  ~AppendedFile();

  void append(std::string_view piece);

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  int fd_ = -1;
};

class MetricsLog {
 public:
  /// Removes the lines of steps beyond `steps_done` from the folder's log, and an incomplete last line; writes the
  /// event file again from the lines that remain. Throws BadInput for a remaining line that is no line of metrics, and
  /// what `report` throws; the files are then unchanged.
  MetricsLog(const std::string& folder, std::int64_t steps_done, const ReportProgress& report = {});

  void write(std::int64_t step, std::span<const Metric> metrics);

 private:
  AppendedFile lines_, events_;
};

/// One line of the curve of each metric: (step, value), as they stand in the file.
struct MetricCurves {
  std::string name;  ///< Of the run: its folder's.
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
};

/// Reads the metrics of a run: its folder, or the file itself. A torn last line is passed over. Throws BadInput for
/// what is no such file.
MetricCurves read_metrics(const std::string& run);

}  // namespace vitrine
