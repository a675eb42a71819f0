#include "train/distributed/shared_steps.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace vitrine {

SharedSteps::SharedSteps(Ranks& ranks, Shard shard, const SharedWork& work, std::int64_t n_leaves, std::string data)
    : ranks_(ranks),
      shard_(shard),
      work_(work),
      n_leaves_(n_leaves),
      data_(std::move(data)),
      slices_(work.trainable.params(), ranks.size()),
      leaves_(divide_leaves(n_leaves, ranks.size(), shard >= Shard::gradients)) {
  if (shard != Shard::none && work.trainable.adapter() != nullptr) {
    throw Unsupported("--shard", "expected none for an adapter, whose state is small, got {}", name_of(shard));
  }
  if (shard >= Shard::optimizer) work.optimizer.divide(slices_, ranks);
  if (shard >= Shard::gradients) {
    gradients_.emplace(ranks, work.gradients, slices_, n_leaves, work.pool, work.kernels);
  } else {
    exchange_.emplace(ranks, work.gradients, slices_, n_leaves, shard == Shard::none);
  }
  if (shard >= Shard::parameters) weights_.emplace(ranks, work.trainable, slices_);
  arriving_.resize(slices_.buckets());
}

SharedSteps::~SharedSteps() {
  try {
    settle();
  } catch (const PeerLost&) {
    ranks_.give_up();
  }
}

void SharedSteps::begin_block(Stack stack, int layer, Way) {
  const std::optional<std::size_t> bucket = slices_.bucket_of(stack, layer);
  if (!bucket) return;
  ranks_.wait(arriving_[*bucket]);
  if (weights_) weights_->begin(*bucket);
}

void SharedSteps::end_block(Stack stack, int layer, Way way) {
  const std::optional<std::size_t> bucket = slices_.bucket_of(stack, layer);
  if (!bucket) return;
  if (weights_) weights_->end(*bucket, way);
  if (way == Way::backward && is_last_leaf_) send_down_to(*bucket);
}

void SharedSteps::forward_backward(const BackwardLeaf& backward) {
  settle_outside();
  if (exchange_) {
    run_nodes(backward);
  } else {
    run_rounds(backward);
  }
}

void SharedSteps::run_nodes(const BackwardLeaf& backward) {
  const auto backward_from_zero = [&](std::int64_t leaf, bool is_last) {
    work_.sum.begin(work_.pool);
    is_last_leaf_ = is_last;
    backward(leaf, this);
  };
  exchange_->begin();
  const std::vector<TreeNode>& nodes = exchange_->nodes();
  for (node_ = 0; node_ < nodes.size(); ++node_) {
    work_.sum.clear();
    for (std::int64_t i = nodes[node_].first; i + 1 < nodes[node_].end; ++i) {
      backward_from_zero(i, false);
      work_.sum.add(work_.pool, work_.kernels);
    }
    backward_from_zero(nodes[node_].end - 1, true);
    send_down_to(0);
    work_.sum.clear();
    if (node_ + 1 < nodes.size()) exchange_->keep(node_);
  }
}

/// Gradients are zero before and after a round. Messages about weights end last, because a rank whose pass has failed
/// must send its gradients first: those that wait for them do not receive the weights of earlier blocks.
void SharedSteps::run_rounds(const BackwardLeaf& backward) {
  const std::vector<std::int64_t>& own = leaves_[static_cast<std::size_t>(ranks_.rank())];
  is_last_leaf_ = true;
  for (std::int64_t first = 0, round = 0; first < n_leaves_; first += ranks_.size(), ++round) {
    gradients_->begin(round);
    if (weights_) weights_->open(static_cast<int>(std::min<std::int64_t>(ranks_.size(), n_leaves_ - first)), true);
    if (static_cast<std::size_t>(round) < own.size()) backward(own[static_cast<std::size_t>(round)], this);
    gradients_->finish();
    if (weights_) weights_->close();
  }
}

/// The backward of the last micro-batch of a node, or of the only one of a round, has completed the buckets from number
/// `bucket` on.
void SharedSteps::send_down_to(std::size_t bucket) {
  if (gradients_) return gradients_->send_down_to(bucket);
  if (bucket >= exchange_->unsent()) return;
  work_.sum.finish_last(work_.pool, work_.kernels, slices_.bucket(bucket).first,
                        slices_.bucket(exchange_->unsent() - 1).end);
  exchange_->send_down_to(node_, bucket);
  if (node_ + 1 == exchange_->nodes().size()) exchange_->add_arrived(work_.pool, work_.kernels);
}

void SharedSteps::gather_bytes(std::span<std::byte> values) {
  const std::size_t size = values.size() / static_cast<std::size_t>(n_leaves_);
  if (size == 0) return;
  std::vector<std::byte> packed(values.size());  // by rank
  std::vector<std::int64_t> bounds = {0};
  const auto for_each_leaf = [&](auto&& visit) {
    std::byte* at = packed.data();
    for (const std::vector<std::int64_t>& leaves : leaves_) {
      for (const std::int64_t leaf : leaves)
        visit(values.data() + static_cast<std::size_t>(leaf) * size, std::exchange(at, at + size));
    }
  };
  for (const std::vector<std::int64_t>& leaves : leaves_) {
    bounds.push_back(bounds.back() + static_cast<std::int64_t>(leaves.size() * size));
  }
  for_each_leaf([&](const std::byte* value, std::byte* place) { std::memcpy(place, value, size); });
  ranks_.wait(ranks_.gather(packed, bounds, Channel::control));
  for_each_leaf([&](std::byte* value, const std::byte* place) { std::memcpy(value, place, size); });
}

std::string SharedSteps::complete(std::uint64_t batch_fingerprint, const Failure& failure) {
  Outcome own{batch_fingerprint, failure.why.empty() ? n_leaves_ : failure.leaf, {}};
  std::copy_n(failure.why.begin(), std::min(failure.why.size(), own.why.size() - 1), own.why.begin());
  const std::vector<Outcome> all = ranks_.gather_values<Outcome>({&own, 1});
  const auto other = std::find_if(all.begin(), all.end(), [&](const Outcome& o) { return o.batch != all[0].batch; });
  const Outcome& first = *std::min_element(
      all.begin(), all.end(), [](const Outcome& a, const Outcome& b) { return a.failed_leaf < b.failed_leaf; });
  if (exchange_) exchange_->add(work_.pool, work_.kernels);  // whatever has failed: the others send and wait, too
  if (other != all.end()) {
    ranks_.together([&] {
      throw BadInput(data_, "{} reads other tokens there than rank 0",
                     ranks_.name(static_cast<int>(other - all.begin())));
    });
  }
  return first.why.data();
}

void SharedSteps::share_weights() {
  if (shard_ != Shard::optimizer && shard_ != Shard::gradients) return;
  settle();
  for (const bool is_block : {false, true}) {  // in the order in which a pass needs them
    for (std::size_t b = 0; b < slices_.buckets(); ++b) {
      if (slices_.is_block(b) == is_block) share_weights(b);
    }
  }
}

void SharedSteps::share_weights(std::size_t bucket) {
  const Places places = slices_.bucket(bucket);
  const std::int64_t size = size_of(work_.trainable.dtype());
  std::vector<std::int64_t> bounds;
  for (int r = 0; r < ranks_.size(); ++r) bounds.push_back((slices_.slice(bucket, r).first - places.first) * size);
  bounds.push_back(places.size() * size);
  arriving_[bucket] = ranks_.gather(places.of(work_.trainable.weights(), size), bounds, Channel::weights);
}

/// Weights outside the blocks are needed in the whole pass.
void SharedSteps::settle_outside() {
  for (std::size_t b = 0; b < slices_.buckets(); ++b) {
    if (!slices_.is_block(b)) ranks_.wait(arriving_[b]);
  }
}

void SharedSteps::settle() {
  for (const Tickets& tickets : arriving_) ranks_.wait(tickets);
}

}  // namespace vitrine
