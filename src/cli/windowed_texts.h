// Texts whose tokens have places in them, read whole or in windows that overlap.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/text_inputs.h"
#include "generate/text_windows.h"

namespace vitrine::cli {

/// Texts that wait for a pass.
class WindowedTexts {
 public:
  WindowedTexts(const Session& session, const TextInputOptions& options);

  /// Adds a text, or the second text of a pair. Throws BadInput for a text that is cut with --no-truncate.
  void add(const std::string& text, const std::optional<std::string>& question, const WindowOptions& windows);

  /// Receives a text with its windows, and the outputs `[n, labels]` of each.
  using Receive = std::function<void(const std::string& text, std::span<const PlacedTexts> windows,
                                     std::span<const std::vector<float>> outputs)>;
  /// Reads all texts, passes them to `receive` in their order, and forgets them.
  void read(const Receive& receive);

  std::int64_t most() const { return most_; }  ///< The number of ids that the model reads.
  std::size_t size() const { return texts_.size(); }
  void report_cut() const;

 private:
  struct Text {
    std::string text;
    std::vector<PlacedTexts> windows;
  };
  const Session& session_;
  const TextInputOptions& options_;
  bool is_typed_;
  std::int64_t most_, n_cut_ = 0;
  std::vector<Text> texts_;
};

/// Calls `add` with each line of stdin as JSON, and `read` for several lines at once.
void for_each_line(const TextInputOptions& options,
                   const std::function<void(const Json& line, const std::string& where)>& add,
                   const std::function<void()>& read);

/// Throws Unsupported unless the model has a head for this task; `what` names what it has not.
const TaskHead& head_for(const Session& session, TaskHead::Task task, const char* command, const char* what);

}  // namespace vitrine::cli
