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

}  // namespace vitrine::cli
