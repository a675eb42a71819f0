#include "train/distributed/sharded_gradients.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vitrine {
namespace {

constexpr std::int64_t kElementsPerThread = std::int64_t{1} << 13;  // elements per thread, at least
constexpr int kLevels = 63;

bool has_bit(std::int64_t n, int bit) { return (n >> bit & 1) != 0; }

}  // namespace

ShardedGradients::ShardedGradients(Ranks& ranks, Gradients& gradients, const Slices& slices, std::int64_t n_leaves,
                                   ThreadPool& pool, const Kernels& kernels)
    : ranks_(ranks),
      gradients_(gradients),
      slices_(slices),
      n_leaves_(n_leaves),
      pool_(pool),
      kernels_(kernels),
      received_(static_cast<std::size_t>(ranks.size())),
      messages_(slices.buckets()) {
  std::int64_t all = 0, most = 0;
  for (std::size_t b = 0; b < slices.buckets(); ++b) {
    const std::int64_t size = slices.slice(b, ranks.rank()).size();
    first_.push_back(all);
    all += size;
    most = std::max(most, size);
  }
  const auto add = [](ZeroMemory& memory, std::int64_t n) {
    memory.resize(n * kFloatBytes, "gradients");
    use_small_pages({memory.bytes(), static_cast<std::size_t>(memory.size())});
  };
  if (n_leaves > ranks.size())
    sums_.resize(static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n_leaves))));
  for (ZeroMemory& sum : sums_) add(sum, all);
  for (int r = 0; r < ranks.size(); ++r) {
    for (ZeroMemory& memory : received_[static_cast<std::size_t>(r)]) add(memory, r == ranks.rank() ? 0 : most);
  }
  use_small_pages(std::as_writable_bytes(gradients.values()));
}

ShardedGradients::~ShardedGradients() {
  Tickets all;
  for (const Tickets& tickets : messages_) append(all, tickets);
  if (!ranks_.is_done(all)) ranks_.give_up();
}

void ShardedGradients::begin(std::int64_t round) {
  leaf_ = round * ranks_.size();
  n_in_round_ = std::min<std::int64_t>(ranks_.size(), n_leaves_ - leaf_);
  unsent_ = incomplete_ = slices_.buckets();
  if (round == 0) give_back(std::as_writable_bytes(gradients_.values()));  // the sum of the last step
  for (std::size_t i = 1; i <= std::min(kUnderWay, unsent_); ++i) receive(unsent_ - i);
}

/// A bucket travels while the next one is computed; more would need more memory.
void ShardedGradients::send_down_to(std::size_t bucket) {
  while (unsent_ > bucket) {
    send(--unsent_);
    while (incomplete_ > unsent_ + 1) complete(--incomplete_);
  }
}

void ShardedGradients::finish() {
  send_down_to(0);
  while (incomplete_ > 0) complete(--incomplete_);
}

void ShardedGradients::send(std::size_t bucket) {
  if (ranks_.rank() >= n_in_round_) return;
  for (int i = 1; i < ranks_.size(); ++i) {
    const int owner = (ranks_.rank() + i) % ranks_.size();
    const auto part = slices_.slice(bucket, owner).of(std::as_writable_bytes(gradients_.values()), kFloatBytes);
    append(messages_[bucket], ranks_.send(owner, part, Channel::gradients));
  }
}

void ShardedGradients::receive(std::size_t bucket) {
  const auto size = static_cast<std::size_t>(slices_.slice(bucket, ranks_.rank()).size());
  for (int r = 0; r < n_in_round_; ++r) {
    if (r == ranks_.rank()) continue;
    const std::span<float> memory(slice_of(r, bucket), size);
    append(messages_[bucket], ranks_.receive(r, std::as_writable_bytes(memory), Channel::gradients));
  }
}

float* ShardedGradients::slice_of(int rank, std::size_t bucket) {
  if (rank == ranks_.rank()) return gradients_.values().data() + slices_.slice(bucket, rank).first;
  return received_[static_cast<std::size_t>(rank)][bucket % kUnderWay].floats();
}

void ShardedGradients::complete(std::size_t bucket) {
  ranks_.wait(messages_[bucket]);
  messages_[bucket].clear();
  add(bucket);
  const auto all = std::as_writable_bytes(gradients_.values());
  if (leaf_ + n_in_round_ == n_leaves_) {
    give_back_others(all, kFloatBytes, slices_, bucket, ranks_.rank());
  } else {
    give_back(slices_.bucket(bucket).of(all, kFloatBytes));
  }
  if (bucket >= kUnderWay) receive(bucket - kUnderWay);
}

/// Adds the leaves of the round to the partial sums, which form a binary counter: after n leaves, each set bit of n has
/// one sum. The leaves' own memory holds the sums inside the round.
void ShardedGradients::add(std::size_t bucket) {
  const Places own = slices_.slice(bucket, ranks_.rank());
  float* const total = gradients_.values().data() + own.first;
  pool_.parallel_for(own.size(), kElementsPerThread, [&](std::int64_t begin, std::int64_t end, int) {
    const auto add_to = [&](float* sum, const float* left) {
      kernels_.add(left + begin, sum + begin, end - begin, sum + begin);
    };
    const auto copy = [&](const float* from, float* to) {
      if (from != to) std::memcpy(to + begin, from + begin, static_cast<std::size_t>((end - begin) * kFloatBytes));
    };
    std::int64_t n = leaf_;
    std::array<float*, kLevels> levels{};
    for (int k = 0; n >> k != 0; ++k)
      levels[static_cast<std::size_t>(k)] = has_bit(n, k) ? partial_sum(k, bucket) : nullptr;
    for (int r = 0; r < n_in_round_; ++r, ++n) {
      float* const sum = slice_of(r, bucket);
      std::size_t k = 0;
      for (; has_bit(n, static_cast<int>(k)); ++k) add_to(sum, levels[k]);
      levels[k] = sum;
    }
    float* sum = nullptr;  // of all leaves, if this is the last round
    for (int k = 0; n >> k != 0; ++k) {
      if (!has_bit(n, k)) continue;
      float* const level = levels[static_cast<std::size_t>(k)];
      if (n < n_leaves_) {
        copy(level, partial_sum(k, bucket));
      } else if (sum == nullptr) {
        sum = level;
      } else {
        add_to(sum, level);
      }
    }
    if (sum != nullptr) copy(sum, total);
  });
}

}  // namespace vitrine
