// A line on the terminal that tells how far a long job has come.
#pragma once

#include <chrono>
#include <string>

#include "base/progress.h"

namespace vitrine::cli {

/// Shows `what`, the part that is done and the time that is left, on stderr: only on a terminal, and only where the job
/// takes more than a second. Each update ends the job where Ctrl-C was pressed.
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

/// A line on stderr that is drawn again and again; not on a terminal, only those that are due.
class LiveLine {
 public:
  LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  ~LiveLine();  ///< Ends the line.

  void show(const std::string& line, bool is_due);
  /// A line that stays, above.
  void keep(const std::string& line);

 private:
  bool on_terminal_;
  std::string shown_;
};

}  // namespace vitrine::cli
