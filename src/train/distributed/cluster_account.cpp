#include "train/distributed/cluster_account.h"

#include <algorithm>
#include <functional>

#include "base/checked.h"
#include "base/error.h"
#include "train/distributed/gradient_sum.h"
#include "train/learner.h"

namespace vitrine {
namespace {

constexpr std::int64_t kOutcomeBytes = sizeof(SharedSteps::Outcome);

/// What the accounts of all ranks share.
struct Cluster {
  Cluster(const ModelConfig& config, const TrainWorkload& work)
      : share(work.share),
        weight(size_of(work.dtype)),
        slices(trainable_params(config), work.share.ranks),
        leaves(divide_leaves(share.micro_batches, share.ranks, share.shard >= Shard::gradients)),
        chunks(count_chunks(config)) {
    for (std::size_t b = 0; b < slices.buckets(); ++b) {
      if (slices.is_block(b)) last_block = b;
    }
  }

  /// The optimizer's chunks of each rank.
  std::vector<std::int64_t> count_chunks(const ModelConfig& config) const {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(share.ranks));
    std::int64_t first = 0;
    std::size_t bucket = 0;
    int rank = 0;
    for (const TrainParam& param : trainable_params(config)) {
      for (std::int64_t at = 0; at < param.count(); at += kChunk) {
        for (; first + at >= slices.bucket(bucket).end; ++bucket) rank = 0;
        while (first + at >= slices.slice(bucket, rank).end) ++rank;
        ++counts[static_cast<std::size_t>(rank)];
      }
      first += round_up(param.count(), kParamAlignment);
    }
    return counts;
  }

  std::int64_t n_leaves(int rank) const {
    return static_cast<std::int64_t>(leaves[static_cast<std::size_t>(rank)].size());
  }
  /// The sums of gradients that a rank sends: of nodes of the tree, or of one micro-batch per round.
  std::int64_t n_nodes(int rank) const {
    if (share.shard >= Shard::gradients) return n_leaves(rank);
    return static_cast<std::int64_t>(
        whole_nodes(share.micro_batches, leaves_of(share.micro_batches, rank, share.ranks)).size());
  }
  std::int64_t n_rounds() const { return n_leaves(0); }
  /// The ranks that run a pass in a round.
  int n_active(std::int64_t round) const {
    return static_cast<int>(std::min<std::int64_t>(share.ranks, share.micro_batches - round * share.ranks));
  }
  std::int64_t own(std::size_t bucket, int rank) const { return slices.slice(bucket, rank).size(); }
  std::int64_t of_others(std::size_t bucket, int rank) const {
    return slices.bucket(bucket).size() - own(bucket, rank);
  }

  const RankShare& share;
  const std::int64_t weight;
  const Slices slices;
  const std::vector<std::vector<std::int64_t>> leaves;
  const std::vector<std::int64_t> chunks;
  std::size_t last_block = 0;
};

/// The messages that a rank sends in a step.
struct Sent {
  std::int64_t bytes = 0, messages = 0;

  void add(std::int64_t size, std::int64_t times) {
    constexpr auto kMax = static_cast<std::int64_t>(kMaxMessageBytes);
    bytes += size * times;
    messages += (size + kMax - 1) / kMax * times;
  }
};

Sent sent_by(const Cluster& c, int rank) {
  const std::int64_t others = c.share.ranks - 1;
  Sent sent;
  for (std::size_t b = 0; b < c.slices.buckets(); ++b) {
    for (int owner = 0; owner < c.share.ranks; ++owner) {
      if (owner != rank) sent.add(c.own(b, owner) * kFloatBytes, c.n_nodes(rank));
    }
    if (c.share.shard == Shard::none) {
      sent.add(c.own(b, rank) * kFloatBytes, others);
    } else if (c.share.shard < Shard::parameters) {
      sent.add(c.own(b, rank) * c.weight, others);
    } else {
      const int times = c.slices.is_block(b) && b != c.last_block ? 2 : 1;  // also for the backward
      for (std::int64_t round = 0; round < c.n_rounds(); ++round) {
        const int active = c.n_active(round);
        sent.add(c.own(b, rank) * c.weight, times * (rank < active ? active - 1 : active));
      }
    }
  }
  sent.add(c.n_leaves(rank) * Learner::kLossBytes, others);
  sent.add(kOutcomeBytes, others);
  if (c.share.shard != Shard::none) sent.add(c.chunks[static_cast<std::size_t>(rank)] * kFloatBytes, others);
  return sent;
}

/// Plays the schedule of a step. Each time is in seconds since its begin, by rank.
class Play {
 public:
  Play(const Cluster& cluster, const ClusterSpeed& speed, double leaf_s, double head_part)
      : c_(cluster), speed_(speed), leaf_s_(leaf_s), head_(head_part), now_(n()), out_(n()), in_(n()) {
    double blocks = 0;
    for (std::size_t b = 0; b < c_.slices.buckets(); ++b) blocks += block_size(b);
    for (std::size_t b = 0; b < c_.slices.buckets(); ++b) parts_.push_back((1 - head_) * block_size(b) / blocks);
  }

  /// The end of the step. It begins when the weights of the last update begin to travel.
  double run() {
    std::vector<Times> arriving(c_.slices.buckets(), Times(n()));
    if (c_.share.shard == Shard::optimizer || c_.share.shard == Shard::gradients) arriving = deliver_updated();
    for (std::size_t b = 0; b < c_.slices.buckets(); ++b) {
      if (!c_.slices.is_block(b)) wait(now_, arriving[b]);
    }
    if (c_.share.shard >= Shard::gradients) {
      for (std::int64_t round = 0; round < c_.n_rounds(); ++round) {
        play_round(round, round == 0 ? arriving : std::vector<Times>(c_.slices.buckets(), Times(n())));
      }
    } else {
      play_nodes(arriving);
    }
    return *std::max_element(now_.begin(), now_.end()) + (c_.share.ranks > 1 ? speed_.latency_s : 0);
  }

 private:
  using Times = std::vector<double>;

  std::size_t n() const { return static_cast<std::size_t>(c_.share.ranks); }
  double block_size(std::size_t b) const {
    return c_.slices.is_block(b) ? static_cast<double>(c_.slices.bucket(b).size()) : 0;
  }

  /// When bytes that the ranks send to each other, from `begin` on, have arrived at each: out(r) leave it, in(r) reach
  /// it, from all that send.
  template <class Out, class In>
  Times deliver(const Times& begin, Out&& out, In&& in) {
    Times arrived = begin;
    const double first = *std::min_element(begin.begin(), begin.end());
    double sent = 0;
    for (std::size_t r = 0; r < n(); ++r) {
      const auto bytes = static_cast<double>(out(static_cast<int>(r)));
      if (bytes == 0) continue;
      out_[r] = std::max(out_[r], begin[r]) + bytes / speed_.bandwidth;
      sent = std::max(sent, out_[r]);
    }
    for (std::size_t r = 0; r < n(); ++r) {
      const auto bytes = static_cast<double>(in(static_cast<int>(r)));
      if (bytes == 0) continue;
      in_[r] = std::max(in_[r], first) + bytes / speed_.bandwidth;
      arrived[r] = std::max(begin[r], std::max(in_[r], sent) + speed_.latency_s);
    }
    return arrived;
  }

  /// The gradients of a bucket from the first `n_senders` ranks.
  Times deliver_gradients(std::size_t b, const Times& begin, const std::vector<bool>& sends) {
    const std::int64_t n_senders = std::count(sends.begin(), sends.end(), true);
    return deliver(
        begin, [&](int r) { return sends[static_cast<std::size_t>(r)] ? c_.of_others(b, r) * kFloatBytes : 0; },
        [&](int r) { return c_.own(b, r) * kFloatBytes * (n_senders - (sends[static_cast<std::size_t>(r)] ? 1 : 0)); });
  }

  Times deliver_weights(std::size_t b, const Times& begin, int n_active) {
    return deliver(
        begin, [&](int r) { return c_.own(b, r) * c_.weight * (r < n_active ? n_active - 1 : n_active); },
        [&](int r) { return r < n_active ? c_.of_others(b, r) * c_.weight : 0; });
  }

  /// Updated weights, those outside the blocks first.
  std::vector<Times> deliver_updated() {
    std::vector<Times> arriving(c_.slices.buckets());
    for (const bool is_block : {false, true}) {
      for (std::size_t b = 0; b < c_.slices.buckets(); ++b) {
        if (c_.slices.is_block(b) == is_block) arriving[b] = deliver_weights(b, now_, c_.share.ranks);
      }
    }
    return arriving;
  }

  static void wait(Times& now, const Times& until) {
    for (std::size_t r = 0; r < now.size(); ++r) now[r] = std::max(now[r], until[r]);
  }

  /// Consecutive micro-batches of each rank, whose subtrees are sent. A bucket that has arrived everywhere is added and
  /// shared while the last backward goes on.
  void play_nodes(const std::vector<Times>& weights) {
    std::vector<std::vector<TreeNode>> nodes;
    std::size_t most = 0;
    for (int r = 0; r < c_.share.ranks; ++r) {
      nodes.push_back(whole_nodes(c_.share.micro_batches, leaves_of(c_.share.micro_batches, r, c_.share.ranks)));
      most = std::max(most, nodes.back().size());
    }
    for (std::size_t b = 0; b < c_.slices.buckets(); ++b) {
      wait(now_, weights[b]);
      for (double& now : now_) now += leaf_s_ * parts_[b] / 3;
    }
    std::vector<Times> arrived(c_.slices.buckets(), Times(n()));
    std::size_t unshared = c_.slices.buckets();
    Times end(n());
    for (std::size_t i = 0; i < most; ++i) {
      std::vector<bool> sends(n());
      for (std::size_t r = 0; r < n(); ++r) {
        sends[r] = i < nodes[r].size();
        const double done = i == 0 ? 1 : 2.0 / 3;  // of the node's blocks: the first forward, the last backward
        if (sends[r]) now_[r] += leaf_s_ * (static_cast<double>(nodes[r][i].size()) - done * (1 - head_));
      }
      for (std::size_t b = c_.slices.buckets(); b-- > 0;) {
        for (std::size_t r = 0; r < n(); ++r) now_[r] += sends[r] ? leaf_s_ * 2 / 3 * parts_[b] : 0;
        if (c_.share.ranks > 1) wait(arrived[b], deliver_gradients(b, now_, sends));
        for (; i + 1 == most && unshared > b && is_before(arrived[unshared - 1], now_); --unshared) {
          wait(end, share_sum(unshared - 1));
        }
      }
    }
    if (c_.share.ranks == 1) return;
    for (; unshared > 0; --unshared) {
      wait(now_, arrived[unshared - 1]);
      wait(end, share_sum(unshared - 1));
    }
    wait(now_, end);
  }

  static bool is_before(const Times& a, const Times& b) {
    return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
  }

  Times share_sum(std::size_t b) {
    if (c_.share.shard != Shard::none) return now_;
    return deliver(
        now_, [&](int r) { return c_.own(b, r) * kFloatBytes * (c_.share.ranks - 1); },
        [&](int r) { return c_.of_others(b, r) * kFloatBytes; });
  }

  /// One micro-batch per rank. A bucket of gradients is added before the next but one is sent; a block of weights
  /// travels while the block before it is computed.
  void play_round(std::int64_t round, const std::vector<Times>& weights) {
    const int active = c_.n_active(round);
    const bool gathers = c_.share.shard == Shard::parameters && c_.share.ranks > 1;
    std::vector<bool> sends(n());
    std::fill_n(sends.begin(), active, true);
    const auto compute = [&](double part) {
      for (std::size_t r = 0; r < n(); ++r) now_[r] += sends[r] ? leaf_s_ * part : 0;
    };
    std::vector<std::size_t> schedule;
    for (std::size_t b = 0; b < c_.slices.buckets(); ++b) {
      if (c_.slices.is_block(b)) schedule.push_back(b);
      if (gathers && !c_.slices.is_block(b)) wait(now_, deliver_weights(b, now_, active));
    }
    const std::size_t n_blocks = schedule.size();
    for (std::size_t i = n_blocks; i > 1; --i) schedule.push_back(schedule[i - 2]);
    std::size_t next = 0;
    Times arriving = gathers ? deliver_weights(schedule[next++], now_, active) : now_;
    const auto begin_block = [&] {
      if (!gathers) return;
      wait(now_, arriving);
      if (next < schedule.size()) arriving = deliver_weights(schedule[next++], now_, active);
    };
    for (std::size_t i = 0; i < n_blocks; ++i) {
      wait(now_, weights[schedule[i]]);
      begin_block();
      compute(parts_[schedule[i]] / 3);
    }
    compute(head_);
    Times under_way = now_;
    for (std::size_t b = c_.slices.buckets(); b-- > 0;) {
      if (c_.slices.is_block(b) && b != c_.last_block) begin_block();
      compute(parts_[b] * 2 / 3);
      if (c_.share.ranks == 1) continue;
      const Times sent = deliver_gradients(b, now_, sends);
      wait(now_, under_way);
      under_way = sent;
    }
    wait(now_, under_way);
  }

  const Cluster& c_;
  const ClusterSpeed& speed_;
  const double leaf_s_, head_;  // a micro-batch takes this time, the head this part of it
  Times parts_;                 // of the time, by bucket
  Times now_, out_, in_;        // each rank's program, and its link in both directions
};

}  // namespace

ClusterAccount account_cluster(const ModelConfig& config, const TrainWorkload& workload, const ClusterSpeed& speed,
                               ThreadPool& pool) {
  if (workload.share.micro_batches < workload.share.ranks) {
    throw BadInput("--micro-batches", "expected at least as many as ranks ({}), got {}", workload.share.ranks,
                   workload.share.micro_batches);
  }
  TrainWorkload of_rank = workload;
  const Cluster cluster(config, workload);
  ClusterAccount account;
  double activations = 0;
  for (const MemoryPart& part : training_memory(config, workload, pool)) {
    if (part.name == "activations") activations = part.bytes;
  }
  std::int64_t max_leaves = 0, max_bytes = 0;
  for (int r = 0; r < workload.share.ranks; ++r) {
    const Sent sent = sent_by(cluster, r);
    account.bytes_sent.push_back(sent.bytes);
    account.messages.push_back(sent.messages);
    of_rank.share.rank = r;
    account.memory_bytes.push_back(activations + total_bytes(state_memory(cluster.slices, of_rank)));
    max_leaves = std::max(max_leaves, cluster.n_leaves(r));
    max_bytes = std::max(max_bytes, sent.bytes);
  }
  const double flops_per_token = training_flops_per_token(config),
               tokens = as_double(workload.batch * workload.seq_len);
  const double leaf_s = flops_per_token * tokens * (workload.recompute ? 4.0 / 3 : 1) / speed.flops_per_s;
  const double head = config.has_head ? 6 * as_double(config.vocab_size * config.output_width()) / flops_per_token : 0;
  account.compute_s = leaf_s * as_double(max_leaves);
  account.communication_s = as_double(max_bytes) / speed.bandwidth;
  account.exposed_s = std::max(0.0, Play(cluster, speed, leaf_s, std::min(head, 1.0)).run() - account.compute_s);
  return account;
}

}  // namespace vitrine
