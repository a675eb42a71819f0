// Names of models on a hub, as commands take them: fetched before the command begins, with progress on stderr.
#pragma once

#include <chrono>
#include <string>

#include "cli/options.h"
#include "cli/progress.h"
#include "hub/access.h"

namespace vitrine::cli {

/// Shows a pull on stderr: a bar on a terminal, else a line at the start and the end of each file and every 30 s.
class PullDisplay {
 public:
  /// `owner`: what the files are fetched for, which begins each line if it is not empty; there is no bar then.
  explicit PullDisplay(const std::string& owner = "");
  PullDisplay(const PullDisplay&) = delete;
  PullDisplay& operator=(const PullDisplay&) = delete;
  ~PullDisplay();  ///< Clears the bar.

  void show(const HubProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const HubProgress& progress);
  double speed(const HubProgress& progress) const;  // bytes per second since the first file began

  std::string prefix_;
  bool on_terminal_;
  bool visible_ = false;
  std::int64_t first_ = -1;  // bytes of all files that were present before
  Clock::time_point begun_{}, file_begun_{}, shown_{};
};

/// How a command reaches the hub: as --offline and `jobs` say, with a display, until Ctrl-C.
HubAccess hub_access(const Options& options, PullDisplay& display, int jobs = HubAccess().jobs);

/// Fetches what the command's arguments name with hf: and replaces each name by the path of its files. `owner` as in
/// PullDisplay.
void fetch_named(Options& options, const std::string& owner);

/// 1234567890 as "1.23 GB".
std::string byte_text(std::int64_t bytes);

}  // namespace vitrine::cli
