#include "serve/model_registry.h"

#include <algorithm>

#include "base/error.h"
#include "serve/model_slot.h"

namespace vitrine {

const LoadedModel& ModelRegistry::Use::model() const { return *slot_->model; }

std::optional<ModelRegistry::Use> ModelRegistry::Wish::take() {
  const std::lock_guard lock(mutex_);
  if (error_) throw RequestError(*error_);
  return std::exchange(use_, std::nullopt);
}

void ModelRegistry::Use::End::operator()(Slot* slot) const {
  {
    const std::lock_guard lock(registry->mutex_);
    --slot->n_uses;
    if (counts) slot->last_used = ServerClock::now();
    registry->has_changed_ = true;
  }
  registry->changed_.notify_all();
}

ModelRegistry::ModelRegistry(std::vector<ModelEntry> sources, const RegistryConfig& config, RoundLoop& loop)
    : sources_(std::move(sources)), config_(config), loop_(loop) {
  check_sources();
  for (const ModelEntry& source : sources_) slots_.push_back(std::make_unique<Slot>(source));
  thread_ = std::thread([this] { run(); });
}

void ModelRegistry::check_sources() const {
  std::int64_t bytes = 0;
  for (const ModelEntry& source : sources_) {
    check_names(source);
    if (!source.preloads) continue;
    bytes += source.summary.bytes + source.summary.draft_bytes;
    if (bytes <= config_.memory) continue;
    throw BadInput(source.where, "the models with preload up to {} need {} bytes, the memory is {}", source.name, bytes,
                   config_.memory);
  }
}

/// Names must mean one model, and so must NAME:ADAPTER.
void ModelRegistry::check_names(const ModelEntry& source) const {
  std::vector<std::string> own = source.aliases;
  own.push_back(source.name);
  for (const std::string& name : own) {
    if (std::ranges::count(own, name) > 1) {
      throw BadInput(source.where, "the model {} has the name \"{}\" twice", source.name, name);
    }
    for (const ModelEntry& other : sources_) {
      const std::string adapter(other.adapter_in(name));
      if (&other < &source && other.has_name(name)) {  // the later one is at fault
        throw BadInput(source.where, "the models {} and {} have the name \"{}\"", other.name, source.name, name);
      }
      if (!adapter.empty() && std::ranges::count(other.adapters, adapter) > 0) {
        throw BadInput(source.where, "the name \"{}\" is that of the adapter {} of the model {}", name, adapter,
                       other.name);
      }
    }
  }
}

ModelRegistry::~ModelRegistry() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = has_changed_ = true;
  }
  changed_.notify_all();
  thread_.join();
  Lock lock(mutex_);
  tell(lock);
  for (const auto& slot : slots_) {
    if (slot->model != nullptr) unload(lock, *slot);
    if (!slot->preparation.joinable()) continue;
    lock.unlock();
    slot->preparation.join();
    lock.lock();
  }
}

const ModelEntry* ModelRegistry::find(std::string_view name) const {
  for (const ModelEntry& source : sources_) {
    if (name.empty() || source.has_name(name)) return &source;
  }
  const auto at = std::ranges::find_if(sources_, [&](const ModelEntry& s) { return !s.adapter_in(name).empty(); });
  return at != sources_.end() ? &*at : nullptr;
}

std::vector<std::string> ModelRegistry::names() const {
  std::vector<std::string> names;
  for (const ModelEntry& source : sources_) {
    names.push_back(source.name);
    names.insert(names.end(), source.aliases.begin(), source.aliases.end());
  }
  return names;
}

ModelRegistry::Slot& ModelRegistry::slot_of(const ModelEntry& source) const {
  return *slots_[static_cast<std::size_t>(&source - sources_.data())];
}

std::chrono::duration<double> ModelRegistry::ttl_of(const Slot& slot) const {
  return slot.source.ttl.value_or(config_.ttl);
}

ModelRegistry::Use ModelRegistry::use_of(Slot& slot, bool counts) {
  ++slot.n_uses;
  return Use(std::unique_ptr<Slot, Use::End>(&slot, {this, counts}));
}

std::optional<ModelRegistry::Use> ModelRegistry::look_at(const ModelEntry& source) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slot_of(source);
  if (slot.model == nullptr) return std::nullopt;
  return use_of(slot, false);
}

std::shared_ptr<ModelRegistry::Wish> ModelRegistry::wish(const ModelEntry& source, std::size_t client,
                                                         std::function<void()> notify) {
  auto wish = std::make_shared<Wish>();
  wish->client_ = client;
  wish->notify_ = std::move(notify);
  const std::lock_guard lock(mutex_);
  Slot& slot = slot_of(source);
  slot.last_asked = wish->since_;
  if (slot.state == ModelState::loaded && !slot.is_leaving) {
    wish->use_.emplace(use_of(slot));
    return wish;
  }
  if (slot.state == ModelState::failed && wish->since_ - slot.last_failed < config_.retry_time) {
    wish->error_ = *slot.error;
    return wish;
  }
  std::size_t n_waiting = 0;
  for (const auto& other : slots_) {
    n_waiting += static_cast<std::size_t>(std::ranges::count_if(other->wishes, [&](const std::weak_ptr<Wish>& weak) {
      const auto waiting = weak.lock();
      return waiting != nullptr && waiting->client_ == client;
    }));
  }
  if (n_waiting >= config_.max_queue) {
    throw RequestError(kQueueFull, "request", "the queue is full ({} requests wait); try again later", n_waiting)
        .with_retry(std::chrono::seconds(1));
  }
  slot.wishes.push_back(wish);
  has_changed_ = true;
  changed_.notify_all();
  return wish;
}

bool ModelRegistry::unload(const ModelEntry& source) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slot_of(source);
  if (slot.state != ModelState::loaded && slot.state != ModelState::loading) return false;
  slot.is_leaving = has_changed_ = true;
  changed_.notify_all();
  return true;
}

ModelStatus ModelRegistry::status(const ModelEntry& source) const {
  const std::lock_guard lock(mutex_);
  const Slot& slot = slot_of(source);
  std::optional<std::chrono::seconds> stays;
  if (const auto ttl = ttl_of(slot); slot.state == ModelState::loaded && ttl.count() > 0) {
    const auto since = slot.n_uses > 0 ? ServerClock::now() : slot.last_used;
    stays = std::chrono::ceil<std::chrono::seconds>(ttl - (ServerClock::now() - since));
  }
  const std::string error = slot.error ? slot.error->what() : slot.summary_error;
  return {&source, slot.summary, slot.state, error, slot.n_uses, slot.n_loads, slot.n_unloads, slot.created, stays};
}

std::vector<ModelStatus> ModelRegistry::list() const {
  std::vector<ModelStatus> all;
  for (const ModelEntry& source : sources_) all.push_back(status(source));
  return all;
}

bool ModelRegistry::is_ready() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(slots_, [](const auto& slot) { return !slot->source.preloads || slot->n_loads > 0; });
}

}  // namespace vitrine
