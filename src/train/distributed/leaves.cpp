#include "train/distributed/leaves.h"

#include <algorithm>
#include <bit>

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

}  // namespace vitrine
