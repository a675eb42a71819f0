// How several ranks share the work of a step (data parallelism): who computes which micro-batches, and where their
// gradients, losses and the updated weights go.
//
//   none, optimizer         each rank computes consecutive micro-batches, and sends its sums     (GradientExchange)
//   gradients, parameters   each computes one micro-batch per round, and sends its gradients     (ShardedGradients)
//   parameters              the weights of a block arrive before it runs                         (ShardedWeights)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/distributed/gradient_exchange.h"
#include "train/distributed/gradient_sum.h"
#include "train/distributed/sharded_gradients.h"
#include "train/distributed/sharded_weights.h"
#include "train/optimizer.h"

namespace vitrine {

/// What the ranks compute on, and with. Everything is borrowed.
struct SharedWork {
  const Trainable& trainable;
  Optimizer& optimizer;
  Gradients& gradients;
  GradientSum& sum;  ///< Of these gradients.
  ThreadPool& pool;
  const Kernels& kernels;
};

class SharedSteps : private BlockEvents {
 public:
  /// The steps have `n_leaves` micro-batches. Errors about batches that differ name `data`. Throws Unsupported if the
  /// parameters cannot be divided so.
  SharedSteps(Ranks& ranks, Shard shard, const SharedWork& work, std::int64_t n_leaves, std::string data);
  /// Waits for the weights; gives up (Ranks::give_up) if a rank is lost.
  ~SharedSteps();

  const Slices& slices() const { return slices_; }

  /// What ranks exchange about the outcome of their micro-batches.
  struct Outcome {
    std::uint64_t batch = 0;
    std::int64_t failed_leaf = 0;  ///< n_leaves: none.
    std::array<char, 256> why{};
  };
  /// The first micro-batch of a rank that has failed, and why; "": none has.
  struct Failure {
    std::int64_t leaf = 0;
    std::string why;
  };
  /// Adds the gradients of a micro-batch to the gradients. `events` must follow its pass. It does not throw for values
  /// that are not finite: the other ranks wait for its messages.
  using BackwardLeaf = std::function<void(std::int64_t leaf, BlockEvents* events)>;
  /// Calls `learn` for all micro-batches of this rank.
  void forward_backward(const BackwardLeaf& backward);
  /// Gives all ranks the values of all micro-batches. Each micro-batch has values.size() / n_leaves of them.
  template <class T>
  void gather(std::vector<T>& values) {
    gather_bytes(std::as_writable_bytes(std::span(values)));
  }
  /// Completes the gradients of the slices that this rank updates, unless a micro-batch has failed: returns why the
  /// first one has. Throws BadInput if the ranks have different batches.
  std::string complete(std::uint64_t batch_fingerprint, const Failure& failure);
  /// After the update: begins to give all ranks the weights that they keep. They arrive while the next pass runs.
  void share_weights();
  /// Waits for the weights. Everything that reads them outside learn(), score() and at_first() calls this first.
  void settle();

  /// Ranks 0 to n_active − 1 run one pass each, without gradients: work(events), which does not throw for values that
  /// are not finite.
  template <class Work>
  void score(int n_active, Work&& work) {
    settle();
    if (weights_) weights_->open(n_active, false);
    if (ranks_.rank() < n_active) work(this);
    if (weights_) weights_->close();
  }
  /// Gives all ranks the values of all micro-batches in their order. compute(leaf, events) returns those of one, at
  /// most `n`, without gradients. It does not throw for values that are not finite.
  template <class Compute>
  std::vector<double> collect(std::int64_t n, const Compute& compute) {
    const std::int64_t n_ranks = ranks_.size(), n_rounds = (n_leaves_ + n_ranks - 1) / n_ranks;
    std::vector<double> own(static_cast<std::size_t>(n_rounds * (n + 1)));  // of each round: how many, then they
    for (std::int64_t first = 0, at = 0; first < n_leaves_; first += n_ranks, at += n + 1) {
      score(static_cast<int>(std::min(n_ranks, n_leaves_ - first)), [&](BlockEvents* events) {
        const std::vector<double> values = compute(first + ranks_.rank(), events);
        own[static_cast<std::size_t>(at)] = static_cast<double>(values.size());
        std::copy(values.begin(), values.end(), own.begin() + at + 1);
      });
    }
    const std::vector<double> of_ranks = ranks_.gather_values<double>(own);
    std::vector<double> all;
    for (std::int64_t leaf = 0; leaf < n_leaves_; ++leaf) {
      const auto place = of_ranks.begin() + (leaf % n_ranks) * std::ssize(own) + leaf / n_ranks * (n + 1);
      all.insert(all.end(), place + 1, place + 1 + static_cast<std::ptrdiff_t>(*place));
    }
    return all;
  }
  /// Calls work() at rank 0, which has all weights.
  template <class Work>
  void at_first(Work&& work) {
    settle();
    if (weights_) return weights_->at_first(work);
    if (ranks_.is_first()) work();
  }

 private:
  void begin_block(Stack stack, int layer, Way way) override;
  void end_block(Stack stack, int layer, Way way) override;
  void run_nodes(const BackwardLeaf& backward);
  void run_rounds(const BackwardLeaf& backward);
  void send_down_to(std::size_t bucket);
  void share_weights(std::size_t bucket);
  void settle_outside();
  void gather_bytes(std::span<std::byte> values);

  Ranks& ranks_;
  const Shard shard_;
  const SharedWork work_;
  const std::int64_t n_leaves_;
  const std::string data_;
  const Slices slices_;
  std::vector<std::vector<std::int64_t>> leaves_;  // of each rank
  std::optional<GradientExchange> exchange_;
  std::size_t node_ = 0;       // of the exchange, whose last leaf is computed
  bool is_last_leaf_ = false;  // of its node, whose backward completes the sum
  std::optional<ShardedGradients> gradients_;
  std::optional<ShardedWeights> weights_;
  std::vector<Tickets> arriving_;  // of each bucket: the weights of the last update
};

}  // namespace vitrine
