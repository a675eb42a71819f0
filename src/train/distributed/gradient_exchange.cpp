#include "train/distributed/gradient_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 13;  // elements per thread, at least

std::span<std::byte> bytes_of(float* data, std::int64_t n) {
  return std::as_writable_bytes(std::span(data, static_cast<std::size_t>(n)));
}

}  // namespace

GradientExchange::GradientExchange(Ranks& ranks, Gradients& gradients, const Slices& slices, std::int64_t n_leaves,
                                   bool shares)
    : ranks_(ranks), gradients_(gradients), slices_(slices), n_leaves_(n_leaves), shares_(shares) {
  std::int64_t size = 0;
  for (std::size_t b = 0; b < slices.buckets(); ++b) {
    slice_first_.push_back(size);
    size += slices.slice(b, ranks.rank()).size();
  }
  for (int r = 0; r < ranks.size(); ++r) {
    for (const TreeNode& node : whole_nodes(n_leaves, leaves_of(n_leaves, r, ranks.size()))) {
      nodes_.push_back({node, r, {}, own_.size(), std::vector<Tickets>(slices.buckets())});
      if (r == ranks.rank()) {
        own_.push_back(node);
      } else {
        nodes_.back().slices.resize(size * static_cast<std::int64_t>(sizeof(float)), "gradients of other ranks");
      }
    }
  }
  kept_.resize(own_.size() - 1);
  shared_.resize(slices.buckets());
}

GradientExchange::~GradientExchange() {
  Tickets all;
  for (const Node& node : nodes_) {
    for (const Tickets& tickets : node.of_buckets) append(all, tickets);
  }
  for (const Tickets& tickets : shared_) append(all, tickets);
  if (!ranks_.is_done(all)) ranks_.give_up();
}

void GradientExchange::begin() {
  unsent_ = unadded_ = slices_.buckets();
  for (Node& node : nodes_) {
    for (Tickets& tickets : node.of_buckets) tickets.clear();
    if (node.rank == ranks_.rank()) continue;
    for (std::size_t b = slices_.buckets(); b-- > 0;) {
      const std::int64_t size = slices_.slice(b, ranks_.rank()).size();
      node.of_buckets[b] = ranks_.receive(node.rank, bytes_of(data(node, b), size), Channel::gradients);
    }
  }
}

void GradientExchange::send_down_to(std::size_t node, std::size_t bucket) {
  while (unsent_ > bucket) send(node, --unsent_);
}

void GradientExchange::send(std::size_t node, std::size_t bucket) {
  const auto own = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.node == own_[node]; });
  float* const all = gradients_.values().data();
  for (int i = 1; i < ranks_.size(); ++i) {
    const int owner = (ranks_.rank() + i) % ranks_.size();
    const Places slice = slices_.slice(bucket, owner);
    append(own->of_buckets[bucket], ranks_.send(owner, bytes_of(all + slice.first, slice.size()), Channel::gradients));
  }
}

void GradientExchange::keep(std::size_t node) {
  gradients_.exchange(kept_[node]);
  unsent_ = slices_.buckets();
}

/// Where this rank's slice of a bucket of a node is.
float* GradientExchange::data(const Node& node, std::size_t bucket) {
  if (node.rank != ranks_.rank()) return node.slices.floats() + slice_first_[bucket];
  const std::int64_t first = slices_.slice(bucket, ranks_.rank()).first;
  if (node.own < kept_.size()) return kept_[node.own].floats() + first;
  return gradients_.values().data() + first;
}

/// Adds elements `begin` to `end` of the parts of `node` into the leftmost part, which it returns.
const float* GradientExchange::add_node(const TreeNode& node, std::span<float* const> data, std::int64_t begin,
                                        std::int64_t end, const Kernels& k) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].node == node) return data[i];
  }
  auto* const left = const_cast<float*>(add_node({node.first, node.middle()}, data, begin, end, k));
  const float* const right = add_node({node.middle(), node.end}, data, begin, end, k);
  k.add(left + begin, right + begin, end - begin, left + begin);
  return left;
}

bool GradientExchange::has_arrived(std::size_t bucket) const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [&](const Node& node) { return ranks_.is_done(node.of_buckets[bucket]); });
}

/// Adds a bucket, and begins to share the sum.
void GradientExchange::add_next(ThreadPool& pool, const Kernels& k) {
  const std::size_t b = --unadded_;
  for (const Node& node : nodes_) ranks_.wait(node.of_buckets[b]);  // also its sends: the sum is written over them
  const Places slice = slices_.slice(b, ranks_.rank());
  std::vector<float*> parts;
  for (const Node& node : nodes_) parts.push_back(data(node, b));
  float* const all = gradients_.values().data();
  float* const sum = all + slice.first;
  pool.parallel_for(slice.size(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    const float* const total = add_node({0, n_leaves_}, parts, begin, end, k);
    if (total != sum) std::memcpy(sum + begin, total + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
  if (!shares_) return;
  std::vector<std::int64_t> bounds;
  const Places bucket = slices_.bucket(b);
  for (int r = 0; r < ranks_.size(); ++r) bounds.push_back((slices_.slice(b, r).first - bucket.first) * kFloatBytes);
  bounds.push_back(bucket.size() * kFloatBytes);
  shared_[b] = ranks_.gather(bytes_of(all + bucket.first, bucket.size()), bounds, Channel::sums);
}

void GradientExchange::add_arrived(ThreadPool& pool, const Kernels& k) {
  while (unadded_ > unsent_ && has_arrived(unadded_ - 1)) add_next(pool, k);
}

void GradientExchange::add(ThreadPool& pool, const Kernels& k) {
  while (unadded_ > 0) add_next(pool, k);
  for (const Tickets& tickets : shared_) ranks_.wait(tickets);
}

}  // namespace vitrine
