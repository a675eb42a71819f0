#include "serve/job.h"

namespace vitrine {

std::int64_t EncodeTask::run_part(const GenerateContext& context, std::int64_t n_rows) {
  std::size_t end = n_done_;
  std::int64_t n_tokens = 0;
  while (end < texts_.size() && (end == n_done_ || n_tokens + std::ssize(texts_[end]) <= n_rows)) {
    n_tokens += std::ssize(texts_[end++]);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!times_.admitted) times_.admitted = ServerClock::now();
  }
  try {
    encode(context, std::span(texts_).subspan(n_done_, end - n_done_), options_,
           [&](std::size_t i, std::span<const float> vector) {
             vectors_[n_done_ + i].assign(vector.begin(), vector.end());
           });
  } catch (...) {
    fail(std::current_exception());
    return n_tokens;
  }
  n_done_ = end;
  if (n_done_ < texts_.size()) return n_tokens;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  notify_();
  return n_tokens;
}

void EncodeTask::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  notify_();
}

}  // namespace vitrine
