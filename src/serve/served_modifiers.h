// The adapters and control vectors of a server: those of all requests, and those that requests choose by name.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "checkpoint/load.h"
#include "pass/modifiers.h"

namespace vitrine {

/// Requests keep what they have chosen, so an adapter that is removed ends with its last request. Thread-safe.
class NamedModifiers {
 public:
  /// Throw BadInput for a name that is taken, unless `replaces`.
  void add(const std::string& name, AppliedAdapter adapter, bool replaces = false);
  void add(const std::string& name, AppliedControl control);
  /// Returns false if there is no such adapter.
  bool remove_adapter(const std::string& name);

  std::optional<AppliedAdapter> adapter(std::string_view name) const;
  std::optional<AppliedControl> control(std::string_view name) const;
  std::vector<std::string> adapter_names() const;
  std::vector<std::string> control_names() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, AppliedAdapter, std::less<>> adapters_;
  std::map<std::string, AppliedControl, std::less<>> controls_;
};

/// A thread that does one thing after another, so that nobody waits for it.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /// Waits for what is being done; the rest is not done.
  ~Background();
  /// The work throws nothing.
  void run(std::function<void()> work);

 private:
  void run_all();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool has_ended_ = false;
  std::thread thread_;  // from the first work on
};

struct ServedModifiers {
  ModifierList of_all{};  ///< Applied to every request, before those that it chooses.
  NamedModifiers named{};
  const Checkpoint* base = nullptr;  ///< For adapters that are added while the server runs.
  std::string adapter_folder{};      ///< The only folder that they may be in; "": they are not added.
  Background loader{};               ///< Adds them.
};

}  // namespace vitrine
