#include "train/dictionary/mixing_order.h"

#include <algorithm>

#include "base/rng.h"

namespace vitrine {

void MixingOrder::fill() {
  const auto buffer = static_cast<std::size_t>(std::max(options_.buffer, options_.batch));
  const std::int64_t limit = options_.is_shuffled ? static_cast<std::int64_t>(buffer) : options_.batch;
  // Rows that stay are before the new ones.
  do {
    for (std::int64_t i = 0; i < options_.pass; ++i) rows_.push_back(passes_ * options_.pass + i);
    ++passes_;
  } while (std::ssize(rows_) < limit);
  std::int64_t kept = 0;
  if (options_.is_shuffled) {
    for (std::size_t i = rows_.size() - 1; i > 0; --i) {
      const double number = uniform(options_.seed, static_cast<std::uint64_t>(fills_), i);
      std::swap(rows_[i], rows_[static_cast<std::size_t>(number * static_cast<double>(i + 1))]);
    }
    kept = static_cast<std::int64_t>(static_cast<double>(limit) * options_.mix_fraction);
  }
  ++fills_;
  const std::int64_t batches = std::max<std::int64_t>(1, (std::ssize(rows_) - kept) / options_.batch);
  to_serve_ = batches * options_.batch;
  std::ranges::reverse(rows_);
}

std::vector<std::int64_t> MixingOrder::next() {
  if (to_serve_ == 0) {
    std::ranges::reverse(rows_);  // those that stayed, in their order
    fill();
  }
  std::vector<std::int64_t> batch(rows_.rbegin(), rows_.rbegin() + options_.batch);
  rows_.resize(rows_.size() - batch.size());
  to_serve_ -= options_.batch;
  return batch;
}

}  // namespace vitrine
