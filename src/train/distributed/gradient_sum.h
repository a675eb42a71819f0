// The sum of the gradients of micro-batches (gradient accumulation).
//
// Gradients number a to b − 1 are added as a tree: T(a, b) = T(a, a + h) + T(a + h, b), h the largest power of two
// below b − a. The tree depends only on the number of gradients, so n processes with one micro-batch each can compute
// the same bits as one process with n.
//
//   for each micro-batch: sum.begin(…), forward and backward into `gradients`, sum.add(…)
//   sum.finish(…)                                   gradients hold the sum
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/gradients.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Which rank computes which micro-batches of a step, and the sums that it can compute alone.
///
/// Micro-batches are the leaves of the tree of train/distributed/gradient_sum.h. Rank r of R computes leaves ⌊P r / R⌋
/// to ⌊P (r + 1) / R⌋ − 1, and adds those of each subtree that it has as a whole. With sharded gradients, it computes
/// leaf j R + r in round j.
/// A node of the tree: the sum of the leaves `first` to `end` − 1.
struct TreeNode {
  std::int64_t first = 0, end = 0;

  std::int64_t size() const { return end - first; }
  bool is_leaf() const { return size() == 1; }
  /// The leaf where the right half begins.
  std::int64_t middle() const;
  bool operator==(const TreeNode&) const = default;
};

/// The leaves of a rank.
TreeNode leaves_of(std::int64_t n_leaves, int rank, int n_ranks);
/// The leaves of each rank: consecutive ones, or, by rounds, r, r + R, r + 2 R, ….
std::vector<std::vector<std::int64_t>> divide_leaves(std::int64_t n_leaves, int n_ranks, bool by_rounds);
/// The buffers of the size of all gradients that a rank needs at most: its partial sums, and the slices of others.
std::int64_t gradient_buffers(std::int64_t n_leaves, int rank, int n_ranks);
/// The largest nodes of the tree over n leaves whose leaves are all among `own`, ascending.
std::vector<TreeNode> whole_nodes(std::int64_t n_leaves, const TreeNode& own);

class GradientSum {
 public:
  /// Keeps a reference to `gradients`.
  explicit GradientSum(Gradients& gradients) : gradients_(gradients) {}

  /// Forgets all parts.
  void clear();
  /// Sets the gradients to zero.
  void begin(ThreadPool& pool);
  /// Takes the gradients as the next part. They are undefined afterwards, until begin() or finish().
  void add(ThreadPool& pool, const Kernels& k);
  /// Instead of add() and finish() for the last part, which is in the gradients: adds the earlier parts to elements
  /// `first` to `end` − 1 of it, which become those of the sum.
  void finish_last(ThreadPool& pool, const Kernels& k, std::int64_t first, std::int64_t end) const;
  /// Puts the sum of all parts, at least one, into the gradients, and forgets the parts.
  void finish(ThreadPool& pool, const Kernels& k);

 private:
  static constexpr std::int64_t kGrain = std::int64_t{1} << 14;  // elements per thread, at least

  void add_last(ThreadPool& pool, const Kernels& k);

  Gradients& gradients_;
  std::int64_t n_ = 0;            // parts
  std::vector<ZeroMemory> sums_;  // of 2^k consecutive parts each, the largest k first
  std::vector<ZeroMemory> spare_;
};

}  // namespace vitrine
