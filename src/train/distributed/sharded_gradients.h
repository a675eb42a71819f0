// The sum of the gradients of micro-batches, of which each rank keeps only its slices (--shard gradients and
// parameters; ZeRO's stage 2).
//
// In round j, ranks 0, 1, … compute micro-batches j R, j R + 1, …. Each slice of their gradients goes to its owner
// (reduce-scatter) while the backward of earlier blocks goes on; then the memory of the bucket is given back:
//
//   begin(0)   backward: send_down_to(5), send_down_to(4), …   finish()
//   begin(1)   …                                               finish()        own slices of the gradients: the sum
//
// The owner adds the slices as the tree of train/distributed/gradient_sum.h does, so each bit is that of one rank. It
// keeps at most log₂ P partial sums of its slices, and none if every rank computes one micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "autograd/gradients.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "ranks/ranks.h"
#include "tensor/zero_memory.h"
#include "train/distributed/slices.h"

namespace vitrine {

class ShardedGradients {
 public:
  /// Borrows its arguments.
  ShardedGradients(Ranks& ranks, Gradients& gradients, const Slices& slices, std::int64_t n_leaves, ThreadPool& pool,
                   const Kernels& kernels);
  ShardedGradients(const ShardedGradients&) = delete;
  ShardedGradients& operator=(const ShardedGradients&) = delete;
  /// If an error leaves messages under way, gives up (Ranks::give_up).
  ~ShardedGradients();

  /// Begins a round. All gradients are zero.
  void begin(std::int64_t round);
  /// The gradients of the buckets from number `bucket` on are complete: sends those that have not been sent. Buckets
  /// that have arrived from all ranks are added.
  void send_down_to(std::size_t bucket);
  /// Sends what has not been sent, and adds all. After the last round, this rank's slices of the gradients are the sum.
  void finish();

 private:
  static constexpr std::size_t kUnderWay = 2;  // buckets

  void send(std::size_t bucket);
  void receive(std::size_t bucket);
  void complete(std::size_t bucket);
  void add(std::size_t bucket);
  /// This rank's slice of a bucket of the gradients of a rank.
  float* slice_of(int rank, std::size_t bucket);
  float* partial_sum(int level, std::size_t bucket) {
    return sums_[static_cast<std::size_t>(level)].floats() + first_[bucket];
  }

  Ranks& ranks_;
  Gradients& gradients_;
  const Slices& slices_;
  std::int64_t n_leaves_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  std::vector<std::int64_t> first_;  // of each bucket: where this rank's slice begins in a partial sum
  std::vector<ZeroMemory> sums_;     // number k: of 2^k consecutive leaves, if n has bit k after n leaves
  std::vector<std::array<ZeroMemory, kUnderWay>> received_;  // of each other rank: slices of the buckets under way
  std::vector<Tickets> messages_;                            // of each bucket
  std::int64_t leaf_ = 0, n_in_round_ = 0;                   // the leaves of the round
  std::size_t unsent_ = 0, incomplete_ = 0;                  // buckets 0 to these numbers − 1
};

}  // namespace vitrine
