// The weights of a model of which each rank keeps only its slices (--shard parameters; ZeRO's stage 3). An all-gather
// completes the weights of a block before it runs.
//
//   open()          own slices ──▶ all ranks that run a pass;  the parameters outside the blocks ◀── all ranks
//   begin(block)    waits for the block's weights, and begins to receive those of the next block of the pass
//   end(block)      gives back their memory, except for the own slice
//   close()         the same for what the pass has not reached, because it has failed
//
// The weights stay at their addresses, so the model's views of them do not change. A pass that learns needs the blocks
// twice, forward and backward; only the last one stays between.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ranks/ranks.h"
#include "train/distributed/slices.h"

namespace vitrine {

class ShardedWeights {
 public:
  /// The rank has its slices (KeptParts). Borrows its arguments.
  ShardedWeights(Ranks& ranks, const Trainable& trainable, const Slices& slices);
  ShardedWeights(const ShardedWeights&) = delete;
  ShardedWeights& operator=(const ShardedWeights&) = delete;
  /// If an error leaves messages under way, gives up (Ranks::give_up).
  ~ShardedWeights();

  /// Begins a round, in which ranks 0 to n_active − 1 run one pass each: forward, or forward and backward.
  void open(int n_active, bool learns);
  void begin(std::size_t block);
  void end(std::size_t block, BlockEvents::Way way);
  void close();

  /// Calls work() at rank 0, which has all weights meanwhile.
  template <class Work>
  void at_first(Work&& work) {
    gather_at_first();
    if (ranks_.is_first()) work();
    close();
  }

 private:
  std::span<std::byte> part(const Places& places) const;
  void send(std::size_t bucket, int to);
  void receive(std::size_t bucket);
  std::size_t next();
  void release(std::size_t bucket);
  void gather_at_first();

  Ranks& ranks_;
  const Trainable& trainable_;
  const Slices& slices_;
  std::vector<std::size_t> schedule_;  // the blocks of this rank's pass, in their order
  std::size_t begun_ = 0;              // those that have begun; one more is being received
  std::size_t n_blocks_ = 0;           // of a forward
  bool learns_ = false;
  std::vector<char> is_whole_;      // buckets that this rank has as a whole, or is receiving
  std::vector<Tickets> receiving_;  // of each bucket
  Tickets sending_;
};

}  // namespace vitrine
