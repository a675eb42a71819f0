#include "store/prefix_store.h"

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxQueued = std::size_t{256} << 20;
constexpr std::chrono::seconds kPause(30);  // after the disk was full

}  // namespace

PrefixStore::PrefixStore(const std::string& path, std::int64_t max_bytes, Note note)
    : folder_(path, max_bytes), note_(std::move(note)), thread_([this] { run(); }) {}

PrefixStore::~PrefixStore() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool PrefixStore::read(const BlockName& name, std::span<std::byte> content, UseTime used) {
  const BlockFolder::Found found = folder_.read(name, content, used);
  if (found == BlockFolder::Found::wrong) ++errors_;
  return found == BlockFolder::Found::block;
}

bool PrefixStore::has_space(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_ == 0 || queued_bytes_ + bytes <= kMaxQueued;
}

void PrefixStore::write(const BlockName& name, BlockBytes content, UseTime used) {
  if (!has_space(content.size)) return;
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ += content.size;
    queue_.push_back({name, std::move(content), used});
  }
  changed_.notify_all();
}

void PrefixStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queued_bytes_ == 0; });
}

void PrefixStore::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    write(next);
    lock.lock();
    queued_bytes_ -= next.content.size;
    changed_.notify_all();
  }
}

void PrefixStore::write(const Queued& block) {
  if (std::chrono::steady_clock::now() < paused_until_) return;
  try {
    folder_.write(block.name, block.content.span(), block.used);
  } catch (const Error& error) {
    if (dynamic_cast<const OutOfCapacity*>(&error) != nullptr)
      paused_until_ = std::chrono::steady_clock::now() + kPause;
    ++errors_;
    if (note_) note_(fmt::format("prompts are not stored: {}", error.what()));
    note_ = nullptr;
  }
}

}  // namespace vitrine
