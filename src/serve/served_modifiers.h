// The adapters, control vectors and dictionaries of a server: those of all requests, and those that requests choose.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "checkpoint/load.h"
#include "pass/modifiers.h"

namespace vitrine {

/// An adapter that requests choose by name.
struct NamedAdapter {
  AppliedAdapter applied;
  /// With the head for labels that the adapter has in place of the base's (modules_to_save); null: it has none.
  std::shared_ptr<const Model> model{};
};

/// Requests keep what they have chosen, so an adapter that is removed ends with its last request. Thread-safe.
class NamedModifiers {
 public:
  /// Throw BadInput for a name that is taken, unless `replaces`.
  void add(const std::string& name, NamedAdapter adapter, bool replaces = false);
  void add(const std::string& name, AppliedControl control);
  /// Returns false if there is no such adapter.
  bool remove_adapter(const std::string& name);

  std::optional<NamedAdapter> adapter(std::string_view name) const;
  std::optional<AppliedControl> control(std::string_view name) const;
  std::vector<std::string> adapter_names() const;
  std::vector<std::string> control_names() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, NamedAdapter, std::less<>> adapters_;
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
  /// Attached for requests that read or change values; also among those of all requests if they replace values.
  std::vector<AppliedDictionary> dictionaries{};
  NamedModifiers named{};
  const Checkpoint* base = nullptr;  ///< Of the adapters; it has what those of all requests replace.
  bool is_head_replaced = false;     ///< By an adapter of all requests.
  std::string adapter_folder{};      ///< The only folder that they may be in; "": they are not added.
  Background loader{};               ///< Adds them.

  /// Opens an adapter of requests. Throws as load_adapter(), BadInput if another one of them has replaced the head.
  NamedAdapter open(const std::string& path, double scale, ThreadPool& pool) const;
};

}  // namespace vitrine
