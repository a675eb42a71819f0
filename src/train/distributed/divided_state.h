// The weights, masters and moments of a run whose ranks keep only parts of them. Checkpoints know nothing of ranks:
// rank 0 reads and writes them as if it had everything, one bucket at a time.
// --shard optimizer is ZeRO's stage 1, gradients its stage 2, parameters its stage 3 (FSDP's full sharding).
//
//   --shard      none    optimizer               gradients          parameters
//   kept         all     own slices of moments and of the masters of bf16 weights
//                                                                   own slices of weights
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "ranks/ranks.h"
#include "train/distributed/slices.h"
#include "train/optimizer.h"
#include "train/run_folder.h"

namespace vitrine {

/// Gives back the weights and masters that a rank does not keep while the parameters receive their values.
class KeptParts {
 public:
  KeptParts(const Ranks& ranks, Shard shard) : ranks_(ranks), shard_(shard) {}

  /// `n` parameters have their values. Call it with 0 first, then after every parameter.
  void filled(const Trainable& trainable, std::size_t n);

 private:
  const Ranks& ranks_;
  const Shard shard_;
  std::optional<Slices> slices_;
  std::size_t next_ = 0;  // bucket
};

/// Gives all ranks what they keep of rank 0's parameters and, with `resumes`, of the moments. Rank 0 then fills moments
/// and masters with `read`.
void share_state(Ranks& ranks, Shard shard, const Trainable& trainable, Optimizer& optimizer, const Slices& slices,
                 bool resumes, const ReadArray& read, ThreadPool& pool, const Kernels& kernels);

/// Lets rank 0 read all of the state, while the others serve.
class StateReader {
 public:
  StateReader(Ranks& ranks, Shard shard, const Trainable& trainable, Optimizer& optimizer, const Slices& slices);

  /// Rank 0: the elements of the bucket that has this address may be read until an element of another one is held.
  /// Threads may hold elements of one bucket at once.
  void hold(const void* address);
  /// Rank 0: ends serve(), and gives back what this rank does not keep.
  void finish();
  /// The other ranks.
  void serve();

 private:
  struct Area {
    std::span<std::byte> bytes;
    std::int64_t element = 0;  ///< Bytes.
  };
  struct Request {
    std::int64_t area = -1, bucket = 0;  ///< −1: none.

    bool operator==(const Request&) const = default;
  };

  std::span<std::byte> part(const Request& request, int rank) const;
  void release();

  Ranks& ranks_;
  const Slices& slices_;
  std::vector<Area> areas_;
  std::mutex mutex_;
  Request held_;
};

}  // namespace vitrine
