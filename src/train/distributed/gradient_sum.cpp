#include "train/distributed/gradient_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace vitrine {

namespace {

void add_whole_nodes(const TreeNode& node, const TreeNode& own, std::vector<TreeNode>& nodes) {
  if (node.end <= own.first || node.first >= own.end) return;
  if (own.first <= node.first && node.end <= own.end) {
    nodes.push_back(node);
    return;
  }
  add_whole_nodes({node.first, node.middle()}, own, nodes);
  add_whole_nodes({node.middle(), node.end}, own, nodes);
}

}  // namespace

std::int64_t TreeNode::middle() const {
  return first + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size() - 1)));
}

TreeNode leaves_of(std::int64_t n_leaves, int rank, int n_ranks) {
  return {n_leaves * rank / n_ranks, n_leaves * (rank + 1) / n_ranks};
}

std::vector<std::vector<std::int64_t>> divide_leaves(std::int64_t n_leaves, int n_ranks, bool by_rounds) {
  std::vector<std::vector<std::int64_t>> leaves(static_cast<std::size_t>(n_ranks));
  for (int r = 0; r < n_ranks; ++r) {
    const TreeNode node = by_rounds ? TreeNode{r, n_leaves} : leaves_of(n_leaves, r, n_ranks);
    for (std::int64_t i = node.first; i < node.end; i += by_rounds ? n_ranks : 1) {
      leaves[static_cast<std::size_t>(r)].push_back(i);
    }
  }
  return leaves;
}

std::int64_t gradient_buffers(std::int64_t n_leaves, int rank, int n_ranks) {
  std::int64_t most = 0, kept = 0, received = 0;
  for (int r = 0; r < n_ranks; ++r) {
    for (const TreeNode& node : whole_nodes(n_leaves, leaves_of(n_leaves, r, n_ranks))) {
      if (r != rank) {
        ++received;
        continue;
      }
      most =
          std::max(most, kept++ + static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(node.size()))));
    }
  }
  return most + (received + n_ranks - 1) / n_ranks;
}

std::vector<TreeNode> whole_nodes(std::int64_t n_leaves, const TreeNode& own) {
  std::vector<TreeNode> nodes;
  add_whole_nodes({0, n_leaves}, own, nodes);
  return nodes;
}

void GradientSum::clear() {
  for (ZeroMemory& sum : sums_) spare_.push_back(std::move(sum));
  sums_.clear();
  n_ = 0;
}

void GradientSum::begin(ThreadPool& pool) {
  const std::span<float> all = gradients_.values();
  pool.parallel_for(static_cast<std::int64_t>(all.size()), kGrain, [&](std::int64_t first, std::int64_t end, int) {
    std::fill(all.begin() + first, all.begin() + end, 0.0f);
  });
}

/// The kept sums form a binary counter: each set bit of n_ has one sum.
void GradientSum::add(ThreadPool& pool, const Kernels& k) {
  for (std::int64_t n = n_++; n % 2 == 1; n /= 2) add_last(pool, k);
  if (spare_.empty()) spare_.emplace_back();
  sums_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  gradients_.exchange(sums_.back());
}

void GradientSum::finish(ThreadPool& pool, const Kernels& k) {
  gradients_.exchange(sums_.back());
  spare_.push_back(std::move(sums_.back()));
  sums_.pop_back();
  while (!sums_.empty()) add_last(pool, k);
  n_ = 0;
}

void GradientSum::finish_last(ThreadPool& pool, const Kernels& k, std::int64_t first, std::int64_t end) const {
  float* const total = gradients_.values().data();
  pool.parallel_for(end - first, kGrain, [&](std::int64_t from, std::int64_t to, int) {
    for (auto sum = sums_.rbegin(); sum != sums_.rend(); ++sum) {
      k.add(sum->floats() + first + from, total + first + from, to - from, total + first + from);
    }
  });
}

/// gradients = the last sum + gradients. The buffer of the last sum becomes spare.
void GradientSum::add_last(ThreadPool& pool, const Kernels& k) {
  const std::span<float> total = gradients_.values();
  const float* const part = sums_.back().floats();
  pool.parallel_for(static_cast<std::int64_t>(total.size()), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    k.add(part + begin, total.data() + begin, end - begin, total.data() + begin);
  });
  spare_.push_back(std::move(sums_.back()));
  sums_.pop_back();
}

}  // namespace vitrine
