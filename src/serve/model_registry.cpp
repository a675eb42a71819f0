#include "serve/model_registry.h"

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "serve/round_loop.h"
#include "serve/served_model.h"

namespace vitrine {

/// A model as the registry sees it; under the registry's mutex.
struct ModelRegistry::Slot {
  explicit Slot(const ModelEntry& s) : source(s) {}

  const ModelEntry& source;
  ModelState state = ModelState::unloaded;
  std::unique_ptr<LoadedModel> model{};  // not null: state is loaded
  std::optional<RequestError> error{};   // of the last load
  bool is_leaving = false;               // no use begins
  std::int64_t n_uses = 0, n_loads = 0, n_unloads = 0, created = 0;
  ServerClock::time_point last_asked{}, last_used{}, last_failed{};
  std::list<std::weak_ptr<Wish>> wishes{};  // in the order of their arrival

  bool is_idle() const { return state == ModelState::loaded && n_uses == 0; }
  std::int64_t bytes() const { return source.summary.bytes; }
};

std::string_view name_of(ModelState state) {
  constexpr std::string_view kNames[] = {"unloaded", "loading", "loaded", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view ModelEntry::adapter_in(std::string_view given) const {
  const auto after = [&](const std::string& own) {
    return given.starts_with(own + ":") ? given.substr(own.size() + 1) : std::string_view();
  };
  if (has_name(given)) return "";
  if (const std::string_view adapter = after(name); !adapter.empty()) return adapter;
  for (const std::string& alias : aliases) {
    if (const std::string_view adapter = after(alias); !adapter.empty()) return adapter;
  }
  return "";
}

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
    std::vector<std::string> own = source.aliases;
    own.push_back(source.name);
    for (const std::string& name : own) {
      if (find(name) != &source || std::ranges::count(own, name) > 1) {
        throw BadInput("models", "several models have the name \"{}\"", name);
      }
    }
    if (source.preloads) bytes += source.summary.bytes;
  }
  if (bytes > config_.memory) {
    throw BadInput("memory", "the models with preload need {} bytes, there are {}", bytes, config_.memory);
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
  if (slot.state != ModelState::loaded) return std::nullopt;
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
  return {&source,      slot.state,   slot.error ? slot.error->what() : source.error,
          slot.n_uses,  slot.n_loads, slot.n_unloads,
          slot.created, stays};
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

void ModelRegistry::run() {
  Lock lock(mutex_);
  for (const auto& slot : slots_) {
    if (has_ended_) return;
    if (slot->source.preloads) load(lock, *slot);
    tell(lock);
  }
  while (!has_ended_) {
    has_changed_ = false;
    if (tell(lock) || unload_idle(lock) || serve_wishes(lock)) continue;
    const auto has_news = [&] { return has_changed_; };
    if (const auto time = next_time()) {
      changed_.wait_until(lock, *time, has_news);
    } else {
      changed_.wait(lock, has_news);
    }
  }
}

/// Lets those who have news know.
bool ModelRegistry::tell(Lock& lock) {
  if (told_.empty()) return false;
  std::vector<std::shared_ptr<Wish>> told = std::exchange(told_, {});
  lock.unlock();
  for (const std::shared_ptr<Wish>& wish : told) wish->notify_();
  told.clear();
  lock.lock();
  return true;
}

/// Unloads a model that is to leave. Returns false if there is none.
bool ModelRegistry::unload_idle(Lock& lock) {
  const auto now = ServerClock::now();
  for (const auto& slot : slots_) {
    if (!slot->is_idle()) continue;
    const auto ttl = ttl_of(*slot);
    const bool is_old = ttl.count() > 0 && now - slot->last_used >= ttl;
    if (!slot->is_leaving && !is_old) continue;
    unload(lock, *slot);
    return true;
  }
  return false;
}

/// Serves those who have waited longest, as far as there is memory. Returns whether something has changed.
bool ModelRegistry::serve_wishes(Lock& lock) {
  const auto now = ServerClock::now();
  Slot* next = nullptr;
  ServerClock::time_point since = ServerClock::time_point::max();
  for (const auto& slot : slots_) {
    std::erase_if(slot->wishes, [](const std::weak_ptr<Wish>& wish) { return wish.expired(); });
    if (slot->bytes() + pinned_bytes() > config_.memory && slot->state != ModelState::loaded) fail_large(*slot);
    fail_late(*slot, now);
    if (slot->wishes.empty()) continue;
    if (slot->state == ModelState::loaded && !slot->is_leaving) {
      grant(*slot);
      continue;
    }
    const auto first = slot->wishes.front().lock();
    if (slot->state == ModelState::loaded || first == nullptr || first->since_ >= since) continue;
    since = first->since_;
    next = slot.get();
  }
  if (!told_.empty()) return true;  // they hear of it before the next model is loaded
  if (next == nullptr || !make_room(lock, *next, since)) return false;
  load(lock, *next);
  return true;
}

/// Unloads models until there is memory for another one. Returns false if it has to wait for uses to end.
bool ModelRegistry::make_room(Lock& lock, const Slot& wanted, ServerClock::time_point since) {
  while (true) {
    std::int64_t used = 0;
    std::vector<Slot*> others;  // that may leave
    for (const auto& slot : slots_) {
      if (slot->state != ModelState::loaded) continue;
      used += slot->bytes();
      if (ttl_of(*slot).count() > 0) others.push_back(slot.get());
    }
    if (used + wanted.bytes() <= config_.memory) return true;
    std::ranges::sort(others, {}, &Slot::last_asked);
    const auto idle = std::ranges::find_if(others, &Slot::is_idle);
    if (idle != others.end()) {
      unload(lock, **idle);
      continue;
    }
    const bool is_leaving = std::ranges::any_of(others, &Slot::is_leaving);
    if (!others.empty() && !is_leaving && ServerClock::now() - since >= config_.patience) {
      others.front()->is_leaving = true;
    }
    return false;
  }
}

/// Loads a model without holding the mutex, so that everything else goes on.
void ModelRegistry::load(Lock& lock, Slot& slot) {
  slot.state = ModelState::loading;
  slot.error.reset();
  lock.unlock();
  std::unique_ptr<LoadedModel> model;
  std::optional<RequestError> error;
  try {
    model = slot.source.load();
    loop_.add(model->scheduler());
  } catch (const std::exception& e) {
    error = RequestError(kLoadFailed, "model", "{} cannot be loaded: {}", slot.source.name, e.what());
  }
  lock.lock();
  if (error) {
    slot.state = ModelState::failed;
    slot.last_failed = ServerClock::now();
    slot.error = error;
    slot.is_leaving = false;
    answer(slot, *error);
    return;
  }
  slot.model = std::move(model);
  slot.state = ModelState::loaded;
  slot.created = std::time(nullptr);
  slot.last_used = ServerClock::now();
  ++slot.n_loads;
  grant(slot);
}

/// Unloads a model that nobody uses.
void ModelRegistry::unload(Lock& lock, Slot& slot) {
  std::unique_ptr<LoadedModel> model = std::move(slot.model);
  slot.state = ModelState::unloaded;
  slot.is_leaving = false;
  ++slot.n_unloads;
  lock.unlock();
  loop_.remove(model->scheduler());
  model.reset();
  lock.lock();
}

/// Gives the model to all who wait for it.
void ModelRegistry::grant(Slot& slot) {
  for (const std::weak_ptr<Wish>& weak : std::exchange(slot.wishes, {})) {
    std::shared_ptr<Wish> wish = weak.lock();
    if (wish == nullptr) continue;
    {
      const std::lock_guard lock(wish->mutex_);
      wish->use_.emplace(use_of(slot));
    }
    told_.push_back(std::move(wish));
  }
}

/// Gives an error to all who wait for a model.
void ModelRegistry::answer(Slot& slot, const RequestError& error) {
  for (const std::weak_ptr<Wish>& weak : std::exchange(slot.wishes, {})) answer(weak.lock(), error);
}

/// `wish` may be null.
void ModelRegistry::answer(std::shared_ptr<Wish> wish, const RequestError& error) {
  if (wish == nullptr) return;
  {
    const std::lock_guard lock(wish->mutex_);
    wish->error_ = error;
  }
  told_.push_back(std::move(wish));
}

/// The bytes of loaded models that never leave.
std::int64_t ModelRegistry::pinned_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& slot : slots_) {
    if (slot->state == ModelState::loaded && ttl_of(*slot).count() == 0) bytes += slot->bytes();
  }
  return bytes;
}

void ModelRegistry::fail_large(Slot& slot) {
  const std::int64_t pinned = pinned_bytes();
  answer(slot,
         RequestError(kModelTooLarge, "model", "{} needs {} bytes, the server has {} for weights{}", slot.source.name,
                      slot.bytes(), config_.memory - pinned, pinned > 0 ? " beside models that never leave" : ""));
}

/// Answers those who have waited for memory too long.
void ModelRegistry::fail_late(Slot& slot, ServerClock::time_point now) {
  while (!slot.wishes.empty()) {
    std::shared_ptr<Wish> wish = slot.wishes.front().lock();
    if (wish != nullptr && now - wish->since_ < config_.max_wait) return;
    slot.wishes.pop_front();
    const RequestError error(kNoSpace, "model", "there is no memory for {} now: other models are in use",
                             slot.source.name);
    answer(std::move(wish), RequestError(error).with_retry(std::chrono::seconds(10)));
  }
}

/// When there is something to do although nothing changes.
std::optional<ServerClock::time_point> ModelRegistry::next_time() const {
  std::optional<ServerClock::time_point> next;
  const auto at = [&](ServerClock::time_point since, std::chrono::duration<double> after) {
    const auto time = since + std::chrono::ceil<ServerClock::duration>(after);
    if (!next || time < *next) next = time;
  };
  const auto now = ServerClock::now();
  for (const auto& slot : slots_) {
    const auto ttl = ttl_of(*slot);
    if (slot->is_idle() && ttl.count() > 0) at(slot->last_used, ttl);
    if (slot->wishes.empty()) continue;
    const auto first = slot->wishes.front().lock();
    if (first == nullptr) continue;
    at(first->since_, config_.max_wait);
    if (now - first->since_ < config_.patience) at(first->since_, config_.patience);
  }
  return next;
}

}  // namespace vitrine
