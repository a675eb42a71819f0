#include "train/distributed/sharded_weights.h"

#include "base/error.h"
#include "tensor/zero_memory.h"

namespace vitrine {

ShardedWeights::ShardedWeights(Ranks& ranks, const Trainable& trainable, const Slices& slices)
    : ranks_(ranks),
      trainable_(trainable),
      slices_(slices),
      is_whole_(slices.buckets(), 0),
      receiving_(slices.buckets()) {}

ShardedWeights::~ShardedWeights() {
  Tickets all = sending_;
  for (const Tickets& tickets : receiving_) append(all, tickets);
  if (!ranks_.is_done(all)) ranks_.give_up();
}

std::span<std::byte> ShardedWeights::part(const Places& places) const {
  return places.of(trainable_.weights(), size_of(trainable_.dtype()));
}

void ShardedWeights::send(std::size_t bucket, int to) {
  append(sending_, ranks_.send(to, part(slices_.slice(bucket, ranks_.rank())), Channel::weights));
}

void ShardedWeights::receive(std::size_t bucket) {
  is_whole_[bucket] = 1;
  receiving_[bucket].clear();
  for (int i = 1; i < ranks_.size(); ++i) {
    const int from = (ranks_.rank() + ranks_.size() - i) % ranks_.size();
    append(receiving_[bucket], ranks_.receive(from, part(slices_.slice(bucket, from)), Channel::weights));
  }
}

/// Waits for the next block of the schedule, and begins to receive the one after it.
std::size_t ShardedWeights::next() {
  const std::size_t block = schedule_[begun_++];
  ranks_.wait(receiving_[block]);
  if (begun_ < schedule_.size()) receive(schedule_[begun_]);
  return block;
}

void ShardedWeights::release(std::size_t bucket) {
  if (std::exchange(is_whole_[bucket], 0) == 0) return;
  give_back_others(trainable_.weights(), size_of(trainable_.dtype()), slices_, bucket, ranks_.rank());
}

void ShardedWeights::open(int n_active, bool learns) {
  learns_ = learns;
  begun_ = 0;
  std::vector<std::size_t> outside;
  schedule_.clear();
  for (std::size_t b = 0; b < slices_.buckets(); ++b) (slices_.is_block(b) ? schedule_ : outside).push_back(b);
  n_blocks_ = schedule_.size();
  for (std::size_t n = n_blocks_; learns && n > 1; --n) schedule_.push_back(schedule_[n - 2]);
  for (const auto* const buckets : {&outside, &schedule_}) {
    for (const std::size_t b : *buckets) {
      for (int i = 1; i < ranks_.size(); ++i) {
        if (const int to = (ranks_.rank() + i) % ranks_.size(); to < n_active) send(b, to);
      }
    }
  }
  if (ranks_.rank() >= n_active) {
    schedule_.clear();
    return;
  }
  for (const std::size_t b : outside) receive(b);
  if (!schedule_.empty()) receive(schedule_[0]);
  for (const std::size_t b : outside) ranks_.wait(receiving_[b]);
}

void ShardedWeights::begin(std::size_t block) {
  if (begun_ > 0 && schedule_[begun_ - 1] == block) return;  // the last block, whose backward follows its forward
  if (begun_ == schedule_.size() || next() != block) {
    throw InternalError("weights", "a pass runs its blocks in another order");
  }
}

void ShardedWeights::end(std::size_t block, BlockEvents::Way way) {
  const bool is_last = begun_ == n_blocks_ && way == BlockEvents::Way::forward;
  if (!(learns_ && is_last)) release(block);
}

void ShardedWeights::close() {
  if (begun_ > 0) release(schedule_[begun_ - 1]);
  while (begun_ < schedule_.size()) release(next());
  for (std::size_t b = 0; b < slices_.buckets(); ++b) release(b);
  ranks_.wait(sending_);
  sending_.clear();
}

void ShardedWeights::gather_at_first() {
  schedule_.clear();
  begun_ = 0;
  for (std::size_t b = 0; b < slices_.buckets(); ++b) {
    if (!ranks_.is_first()) {
      send(b, 0);
    } else {
      receive(b);
    }
  }
  for (const Tickets& tickets : receiving_) ranks_.wait(tickets);
}

}  // namespace vitrine
