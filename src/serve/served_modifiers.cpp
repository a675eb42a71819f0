#include "serve/served_modifiers.h"

#include "base/error.h"
#include "checkpoint/adapters/adapter.h"

namespace vitrine {
namespace {

template <class Named>
std::vector<std::string> names_in(const Named& named) {
  std::vector<std::string> names;
  for (const auto& [name, value] : named) names.push_back(name);
  return names;
}

template <class Named>
auto find_in(const Named& named, std::string_view name) -> std::optional<typename Named::mapped_type> {
  const auto at = named.find(name);
  return at != named.end() ? std::optional(at->second) : std::nullopt;
}

}  // namespace

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Background::run(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { run_all(); });
  changed_.notify_one();
}

void Background::run_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return has_ended_ || !work_.empty(); });
    if (has_ended_) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

NamedAdapter ServedModifiers::open(const std::string& path, double scale, ThreadPool& pool) const {
  const auto loaded = load_adapter(path, *base, pool, true);
  if (loaded->saved.empty()) return {{loaded, scale}};
  if (is_head_replaced) {
    throw BadInput(path, "an adapter of all requests has replaced the head for labels (modules_to_save)");
  }
  return {{loaded, scale}, with_saved_parameters(*base, *loaded).model};
}

void NamedModifiers::add(const std::string& name, NamedAdapter adapter, bool replaces) {
  const std::lock_guard lock(mutex_);
  if (!replaces && adapters_.contains(name)) throw BadInput("adapter", "there is already an adapter \"{}\"", name);
  adapters_.insert_or_assign(name, std::move(adapter));
}

void NamedModifiers::add(const std::string& name, AppliedControl control) {
  const std::lock_guard lock(mutex_);
  if (!controls_.try_emplace(name, std::move(control)).second) {
    throw BadInput("control", "there is already a control vector \"{}\"", name);
  }
}

bool NamedModifiers::remove_adapter(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return adapters_.erase(name) > 0;
}

std::optional<NamedAdapter> NamedModifiers::adapter(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return find_in(adapters_, name);
}

std::optional<AppliedControl> NamedModifiers::control(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return find_in(controls_, name);
}

std::vector<std::string> NamedModifiers::adapter_names() const {
  const std::lock_guard lock(mutex_);
  return names_in(adapters_);
}

std::vector<std::string> NamedModifiers::control_names() const {
  const std::lock_guard lock(mutex_);
  return names_in(controls_);
}

}  // namespace vitrine
