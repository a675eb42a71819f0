// The thread of ModelRegistry: what it loads and unloads, and when.
#include <algorithm>
#include <ctime>

#include "serve/model_slot.h"
#include "serve/round_loop.h"

namespace vitrine {

void ModelRegistry::run() {
  Lock lock(mutex_);
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

void ModelRegistry::report(Lock& lock, const std::string& text) {
  if (!config_.report) return;
  lock.unlock();
  config_.report(text);
  lock.lock();
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
  for (const auto& slot : slots_) {
    if (end_preparation(lock, *slot)) return true;
    update(*slot, now);
  }
  if (!told_.empty()) return true;  // they hear of it before the next model is loaded
  Slot* const next = next_to_load(now);
  if (next == nullptr) return false;
  if (next->files == Slot::Files::unknown) {
    prepare(*next);
    return true;
  }
  if (!make_room(lock, *next)) return false;
  load(lock, *next);
  return true;
}

/// Answers those who wait for a model as far as that is possible without loading it.
void ModelRegistry::update(Slot& slot, ServerClock::time_point now) {
  std::erase_if(slot.wishes, [](const std::weak_ptr<Wish>& wish) { return wish.expired(); });
  const std::int64_t memory = config_.memory - pinned_bytes();
  if (slot.bytes() > memory && slot.state != ModelState::loaded) fail_large(slot, memory);
  fail_late(slot, now);
  if (slot.state == ModelState::loaded && !slot.is_leaving) grant(slot);
  const bool is_forgotten = slot.wishes.empty() && !slot.is_wanted && slot.files != Slot::Files::being_prepared;
  if (slot.state != ModelState::loading || !is_forgotten) return;
  slot.end_loading(ModelState::unloaded);
  slot.is_leaving = false;
}

/// The model that somebody has wanted for longest; null if there is none that can be prepared or loaded.
ModelRegistry::Slot* ModelRegistry::next_to_load(ServerClock::time_point now) {
  Slot* next = nullptr;
  for (const auto& slot : slots_) {
    if (slot->state == ModelState::loaded || slot->files == Slot::Files::being_prepared) continue;
    const bool can_retry = slot->state != ModelState::failed || now - slot->last_failed >= config_.retry_time;
    slot->wanted_since = slot->is_wanted && can_retry ? begun_ : ServerClock::time_point::max();
    const auto first = slot->wishes.empty() ? nullptr : slot->wishes.front().lock();
    if (first != nullptr) slot->wanted_since = std::min(slot->wanted_since, first->since_);
    if (slot->wanted_since == ServerClock::time_point::max()) continue;
    if (next == nullptr || slot->wanted_since < next->wanted_since) next = slot.get();
  }
  return next;
}

/// Begins to make the files of a model present, so that other models are loaded meanwhile.
void ModelRegistry::prepare(Slot& slot) {
  slot.state = ModelState::loading;
  slot.error.reset();
  slot.files = Slot::Files::being_prepared;
  slot.preparation = std::thread([this, &slot] {
    ModelSummary summary;
    std::exception_ptr failure;
    try {
      summary = slot.source.prepare();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    slot.failure = failure;
    if (failure == nullptr) {
      slot.summary = std::move(summary);
      slot.summary_error.clear();
    }
    slot.files = Slot::Files::prepared;
    has_changed_ = true;
    changed_.notify_all();
  });
}

/// Returns whether a preparation has ended.
bool ModelRegistry::end_preparation(Lock& lock, Slot& slot) {
  if (slot.files == Slot::Files::being_prepared || !slot.preparation.joinable()) return false;
  slot.preparation.join();
  try {
    if (slot.failure != nullptr) std::rethrow_exception(std::exchange(slot.failure, nullptr));
  } catch (const std::exception& e) {
    fail(lock, slot, e);
  }
  return true;
}

/// Unloads models until there is memory for another one. Returns false if it has to wait for uses to end.
bool ModelRegistry::make_room(Lock& lock, const Slot& wanted) {
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
    if (!others.empty() && !is_leaving && ServerClock::now() - wanted.wanted_since >= config_.patience) {
      others.front()->is_leaving = true;
    }
    return false;
  }
}

/// Loads a model without holding the mutex, so that everything else goes on.
void ModelRegistry::load(Lock& lock, Slot& slot) {
  slot.state = ModelState::loading;
  slot.error.reset();
  const auto begin = ServerClock::now();
  lock.unlock();
  std::unique_ptr<LoadedModel> model;
  try {
    model = slot.source.load();
    loop_.add(model->scheduler());
  } catch (const std::exception& e) {
    lock.lock();
    return fail(lock, slot, e);
  }
  lock.lock();
  slot.model = std::move(model);
  slot.end_loading(ModelState::loaded);
  slot.is_wanted = false;
  slot.created = std::time(nullptr);
  slot.last_used = ServerClock::now();
  ++slot.n_loads;
  grant(slot);
  const std::chrono::duration<double> seconds = slot.last_used - begin;
  report(lock,
         fmt::format("{} is in memory, {} bytes after {:.2f} s", slot.source.name, slot.bytes(), seconds.count()));
}

/// Gives the error of a load to all who wait for it.
void ModelRegistry::fail(Lock& lock, Slot& slot, const std::exception& error) {
  const RequestError own(kLoadFailed, "model", "{} cannot be loaded: {}", slot.source.name, error.what());
  slot.end_loading(ModelState::failed);
  slot.is_leaving = false;
  slot.last_failed = ServerClock::now();
  slot.error = own;
  answer(slot, own);
  report(lock, own.what());
}

/// Unloads a model that nobody uses.
void ModelRegistry::unload(Lock& lock, Slot& slot) {
  std::unique_ptr<LoadedModel> model = std::move(slot.model);
  slot.is_leaving = true;
  lock.unlock();
  loop_.remove(model->scheduler());
  model.reset();
  lock.lock();
  slot.end_loading(ModelState::unloaded);
  slot.is_leaving = false;
  ++slot.n_unloads;
  report(lock, slot.source.name + " has left the memory");
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

/// `memory`: what models that may leave have.
void ModelRegistry::fail_large(Slot& slot, std::int64_t memory) {
  slot.is_wanted = false;
  answer(slot, RequestError(kModelTooLarge, "model", "{} needs {} bytes, the server has {} for weights{}",
                            slot.source.name, slot.bytes(), memory,
                            memory < config_.memory ? ", because models that never leave have the rest" : ""));
}

/// Answers those who have waited for memory too long.
void ModelRegistry::fail_late(Slot& slot, ServerClock::time_point now) {
  while (!slot.wishes.empty()) {
    std::shared_ptr<Wish> wish = slot.wishes.front().lock();
    if (wish != nullptr && now - wish->since_ < config_.max_wait) return;
    slot.wishes.pop_front();
    const bool is_fetched = slot.files != Slot::Files::being_prepared;
    const RequestError error(kNoSpace, "model", "{} cannot be loaded now: {}", slot.source.name,
                             is_fetched ? "other models need the memory" : "its files are still being fetched");
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
    if (slot->is_wanted && slot->state == ModelState::failed) at(slot->last_failed, config_.retry_time);
    if (slot->wishes.empty()) continue;
    const auto first = slot->wishes.front().lock();
    if (first == nullptr) continue;
    at(first->since_, config_.max_wait);
    if (now - first->since_ < config_.patience) at(first->since_, config_.patience);
  }
  return next;
}

}  // namespace vitrine
