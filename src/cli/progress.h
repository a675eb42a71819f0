// A line on the terminal that shows the progress of a long job.
#pragma once

#include <chrono>
#include <string>

#include "base/progress.h"

namespace vitrine::cli {

/// Shows `what`, the fraction done and the time left on stderr: only on a terminal, and only if the job takes more than
/// a second. An update throws Interrupted after Ctrl-C.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();  ///< Clears the line.

  void update(std::int64_t done, std::int64_t total);
  ReportProgress reporter() {
    return [this](std::int64_t done, std::int64_t total) { update(done, total); };
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = begun_;
  bool on_terminal_;
  bool visible_ = false;
};

/// 90 s as "1 min 30 s".
std::string duration_text(double seconds);

/// A line on stderr that is redrawn in place; if stderr is not a terminal, only lines that are due are printed.
class LiveLine {
 public:
  LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  ~LiveLine();  ///< Ends the line.

  void show(const std::string& line, bool is_due);
  /// Prints `line` permanently, above the line that is redrawn.
  void keep(const std::string& line);

 private:
  bool on_terminal_;
  std::string shown_;
};

}  // namespace vitrine::cli
