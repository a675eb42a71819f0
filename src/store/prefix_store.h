// Blocks of keys, values and states on disk, which outlive the process: the level below the prefix cache.
//
// Blocks are read where they are needed. They are written by a thread of the store, from a queue with a limit: a block
// that finds it full is not kept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "store/block_folder.h"

namespace vitrine {

/// The content of a block that is to be written.
struct BlockBytes {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;

  explicit BlockBytes(std::size_t n) : data(std::make_unique_for_overwrite<std::byte[]>(n)), size(n) {}
  std::span<std::byte> span() const { return {data.get(), size}; }
};

/// All members may be called from any thread.
class PrefixStore {
 public:
  /// Receives what a user should know, one line. It is called once at most, on the store's thread.
  using Note = std::function<void(const std::string&)>;

  /// Throws as BlockFolder does.
  PrefixStore(const std::string& path, std::int64_t max_bytes, Note note);
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;
  /// Writes what is in the queue.
  ~PrefixStore();

  bool has(const BlockName& name) const { return folder_.has(name); }
  /// Marks the block as used. Returns whether there is one.
  bool touch(const BlockName& name, UseTime used) const { return folder_.touch(name, used); }
  /// Fills `content` with that of a block. Returns false if there is none. One that is wrong is removed and counted.
  bool read(const BlockName& name, std::span<std::byte> content, UseTime used);
  /// Whether the queue has space for a block of so many bytes.
  bool has_space(std::size_t bytes) const;
  /// Puts a block into the queue if it has space. Failures are counted, and the first one is noted.
  void write(const BlockName& name, BlockBytes content, UseTime used);
  /// Waits until the queue is empty.
  void flush();

  std::int64_t errors() const { return errors_; }  ///< Blocks that were wrong, and failed writes.
  std::int64_t bytes() const { return folder_.bytes(); }

 private:
  struct Queued {
    BlockName name;
    BlockBytes content;
    UseTime used;
  };

  void run();
  void write(const Queued& block);

  BlockFolder folder_;
  Note note_;
  std::atomic<std::int64_t> errors_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  std::size_t queued_bytes_ = 0;  // also of the block that is being written
  bool is_ending_ = false;
  std::chrono::steady_clock::time_point paused_until_{};  // the disk is full
  std::thread thread_;
};

}  // namespace vitrine
