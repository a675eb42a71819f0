// The sum of the gradients of micro-batches that several ranks compute: data parallelism. Sending slices to their
// owners is a reduce-scatter, sharing the sums an all-gather; both together are an all-reduce.
//
//   rank q    T(a, b) of its leaves ──▶ each slice of it to the slice's owner               send()
//   owner     its slice of all T(a, b) ──▶ added in the order of the tree                   add_arrived(), add()
//   all       (share) each slice of the sum from its owner                                  the same
//
// A step: begin(), then for each of nodes(): compute the sum of its leaves into the gradients, and send_down_to() each
// bucket that is complete, while others are still computed; then add(). Buckets that have arrived meanwhile can be
// added earlier. Each bit is that of one rank that computes all leaves (train/distributed/gradient_sum.h).
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/gradients.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "ranks/ranks.h"
#include "tensor/zero_memory.h"
#include "train/distributed/gradient_sum.h"
#include "train/distributed/slices.h"

namespace vitrine {

class GradientExchange {
 public:
  /// `shares`: every rank receives the whole sum; else each only its slices. Borrows its arguments.
  GradientExchange(Ranks& ranks, Gradients& gradients, const Slices& slices, std::int64_t n_leaves, bool shares);

  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  /// If an error leaves messages under way, gives up (Ranks::give_up).
  ~GradientExchange();

  /// The sums that this rank computes, ascending.
  const std::vector<TreeNode>& nodes() const { return own_; }

  /// Begins to receive the slices of the other ranks' nodes.
  void begin();
  /// The gradients hold own node number `node`, from bucket number `bucket` on: sends those that have not been sent.
  void send_down_to(std::size_t node, std::size_t bucket);
  /// The buckets of the current node that have not been sent: 0 to this number − 1.
  std::size_t unsent() const { return unsent_; }
  /// Keeps the gradients, all of whose buckets have been sent, until the step ends. They are undefined afterwards.
  /// Not for the last node.
  void keep(std::size_t node);
  /// Adds the buckets that have been sent and have arrived from all ranks. Only during the last node.
  void add_arrived(ThreadPool& pool, const Kernels& k);
  /// Puts the sum into the gradients: this rank's slices, or all of it.
  void add(ThreadPool& pool, const Kernels& k);

 private:
  struct Node {
    TreeNode node;
    int rank = 0;
    ZeroMemory slices;                // another rank's: this rank's slices, in the order of the buckets
    std::size_t own = 0;              // this rank's: its number
    std::vector<Tickets> of_buckets;  // messages
  };

  void send(std::size_t node, std::size_t bucket);
  float* data(const Node& node, std::size_t bucket);
  const float* add_node(const TreeNode& node, std::span<float* const> data, std::int64_t begin, std::int64_t end,
                        const Kernels& k) const;
  bool has_arrived(std::size_t bucket) const;
  void add_next(ThreadPool& pool, const Kernels& k);

  Ranks& ranks_;
  Gradients& gradients_;
  const Slices& slices_;
  std::int64_t n_leaves_;
  bool shares_;
  std::vector<TreeNode> own_;
  std::vector<ZeroMemory> kept_;           // the sums of own nodes but the last
  std::vector<Node> nodes_;                // of all ranks, ascending: together they are all leaves
  std::vector<std::int64_t> slice_first_;  // of each bucket: where this rank's slice begins in Node::slices
  std::vector<Tickets> shared_;            // of each bucket
  std::size_t unsent_ = 0;                 // buckets 0 to this number − 1, of the current node
  std::size_t unadded_ = 0;                // the same
};

}  // namespace vitrine
