// Which rank computes which micro-batches of a step (data parallelism), and the sums that it can compute alone.
//
// Micro-batches are the leaves of the tree of train/distributed/gradient_sum.h. Rank r of R computes leaves ⌊P r / R⌋
// to ⌊P (r + 1) / R⌋ − 1, and adds those of each subtree that it has as a whole. With sharded gradients, it computes
// leaf j R + r in round j.
#pragma once

#include <cstdint>
#include <vector>

namespace vitrine {

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

}  // namespace vitrine
