// A request for vectors of a model that reads a text at once: its texts on the way to the scheduler, their vectors on
// the way out.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "generate/encode.h"
#include "serve/job.h"

namespace vitrine {

/// Shared by the scheduler, which runs it, and by the thread that answers the client.
class EncodeTask {
 public:
  /// `client`: the number of its API key. `notify` is called on the scheduler's thread at the end.
  EncodeTask(std::size_t client, std::vector<std::vector<std::int32_t>> texts, const EncodeOptions& options,
             std::function<void()> notify)
      : client_(client),
        texts_(std::move(texts)),
        options_(options),
        notify_(std::move(notify)),
        vectors_(texts_.size()) {}

  std::size_t client() const { return client_; }
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_; }

  /// The vectors of all texts, once they are there. Throws the error of a task that has failed.
  std::optional<std::vector<std::vector<float>>> take() {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    if (!has_ended_) return std::nullopt;
    return std::move(vectors_);
  }
  JobTimes times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }

  /// For the scheduler: encodes the next texts, of about `n_rows` tokens, at least one text. Returns their number of
  /// tokens.
  std::int64_t run_part(const GenerateContext& context, std::int64_t n_rows);
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return has_ended_ || error_ != nullptr;
  }
  void fail(std::exception_ptr error);

 private:
  std::size_t client_;
  std::vector<std::vector<std::int32_t>> texts_;
  EncodeOptions options_;
  std::function<void()> notify_;
  std::size_t n_done_ = 0;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::vector<std::vector<float>> vectors_;
  std::exception_ptr error_;
  bool has_ended_ = false;
  JobTimes times_;
};

}  // namespace vitrine
