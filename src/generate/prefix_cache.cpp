#include "generate/prefix_cache.h"

#include <algorithm>

namespace vitrine {

/// The ids of a block, and its keys and values in each group of layers, or null.
struct PrefixCache::Node {
  struct Held {
    KvBlock block;
    std::uint64_t used = 0;  // by the clock
  };

  Node* parent = nullptr;
  std::vector<std::int32_t> ids{};
  std::vector<Held> groups{};
  std::vector<std::unique_ptr<Node>> children{};

  bool is_empty() const {
    return children.empty() && std::none_of(groups.begin(), groups.end(), [](const Held& held) { return held.block; });
  }
};

struct PrefixCache::Root {
  PrefixKey key;
  Node node{};
};

/// A block of a node.
struct PrefixCache::Place {
  Node* node = nullptr;
  std::size_t group = 0;

  Node::Held& held() const { return node->groups[group]; }
};

namespace {

using Ids = std::span<const std::int32_t>;

std::size_t n_common(Ids a, Ids b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

PrefixCache::PrefixCache(std::int64_t most_idle_bytes) : most_idle_bytes_(most_idle_bytes) {}
PrefixCache::~PrefixCache() = default;

PrefixCache::Node* PrefixCache::find(const PrefixKey& key) const {
  const auto at = std::find_if(roots_.begin(), roots_.end(), [&](const auto& root) { return root->key == key; });
  return at != roots_.end() ? &(*at)->node : nullptr;
}

PrefixCache::Node& PrefixCache::find_or_add(const PrefixKey& key) {
  if (Node* const known = find(key)) return *known;
  roots_.push_back(std::make_unique<Root>(Root{key}));
  return roots_.back()->node;
}

/// Whether the nodes hold all blocks that a sequence of `length` tokens reads.
bool PrefixCache::has(std::span<Node* const> path, std::int64_t length, const KvCache& cache) {
  for (std::size_t group = 0; group < cache.groups().size(); ++group) {
    const auto first = static_cast<std::size_t>(cache.groups()[group].first_kept(length) / cache.block_length());
    for (std::size_t i = first; i < path.size(); ++i) {
      if (!path[i]->groups[group].block) return false;
    }
  }
  return true;
}

/// Marks these blocks as used now.
void PrefixCache::use(std::span<Node* const> path, std::int64_t length, const KvCache& cache) {
  ++clock_;
  for (std::size_t group = 0; group < cache.groups().size(); ++group) {
    const auto first = static_cast<std::size_t>(cache.groups()[group].first_kept(length) / cache.block_length());
    for (std::size_t i = first; i < path.size(); ++i) path[i]->groups[group].used = clock_;
  }
}

std::int64_t PrefixCache::restore(const PrefixKey& key, std::span<const std::int32_t> ids, std::int64_t most,
                                  KvCache& cache) {
  Node* node = cache.is_in_blocks() ? find(key) : nullptr;
  Ids rest = ids.first(std::min(ids.size(), static_cast<std::size_t>(std::max<std::int64_t>(most, 0))));
  std::vector<Node*> path;
  std::int64_t length = 0;
  while (node != nullptr && !rest.empty()) {
    Node* nearest = nullptr;
    std::size_t n = 0;
    for (const auto& child : node->children) {
      if (const std::size_t own = n_common(child->ids, rest); own > n) nearest = child.get(), n = own;
    }
    if (nearest == nullptr) break;
    path.push_back(nearest);
    length += static_cast<std::int64_t>(n);
    rest = rest.subspan(n);
    node = n == static_cast<std::size_t>(cache.block_length()) ? nearest : nullptr;
  }
  for (; !path.empty(); path.pop_back(), length = std::ssize(path) * cache.block_length()) {
    if (!has(path, length, cache)) continue;
    use(path, length, cache);
    std::vector<std::vector<KvBlock>> blocks(cache.groups().size());
    for (std::size_t group = 0; group < blocks.size(); ++group) {
      const auto first = static_cast<std::size_t>(cache.groups()[group].first_kept(length) / cache.block_length());
      for (std::size_t i = 0; i < path.size(); ++i) {
        blocks[group].push_back(i < first ? nullptr : path[i]->groups[group].block);
      }
    }
    cache.share(length, std::move(blocks));
    return length;
  }
  return 0;
}

void PrefixCache::keep(const PrefixKey& key, std::span<const std::int32_t> ids, const KvCache& cache, bool with_last) {
  const auto block_length = static_cast<std::size_t>(cache.block_length());
  const auto length = static_cast<std::size_t>(cache.length());
  if (!cache.is_in_blocks() || length < (with_last ? 1 : block_length)) return;
  if (groups_.empty()) {
    for (const KvGroup& group : cache.groups()) groups_.push_back({group.window.has_value(), group.block_bytes});
  }
  Node* node = &find_or_add(key);
  std::vector<Node*> path;
  for (std::size_t first = 0; first < length; first += block_length) {
    const Ids own = ids.subspan(first, std::min(block_length, length - first));
    if (own.size() < block_length && !with_last) break;
    const auto holds_own = [&](const auto& child) { return n_common(child->ids, own) == own.size(); };
    auto child = std::find_if(node->children.begin(), node->children.end(), holds_own);
    if (child == node->children.end()) {
      // Nodes that have only the first of these ids are not needed any more.
      std::erase_if(node->children, [&](const auto& other) { return n_common(other->ids, own) == other->ids.size(); });
      auto added = std::make_unique<Node>(Node{node, {own.begin(), own.end()}});
      added->groups.resize(groups_.size());
      child = node->children.insert(node->children.end(), std::move(added));
    }
    node = child->get();
    path.push_back(node);
    for (std::size_t group = 0; group < groups_.size() && node->ids.size() == own.size(); ++group) {
      const std::vector<KvBlock>& blocks = cache.groups()[group].blocks;
      KvBlock& block = node->groups[group].block;
      if (!block && first / block_length < blocks.size()) block = blocks[first / block_length];
    }
  }
  use(path, cache.length(), cache);
}

/// Sets `oldest` to the block below `node` that has not been used for the longest time, if that is longer than for
/// `oldest`. Layers without a window need all blocks before a position, so of theirs the last ones come first.
void PrefixCache::find_oldest(Node& node, Place& oldest) const {
  for (std::size_t group = 0; group < node.groups.size(); ++group) {
    const auto has_block = [&](const auto& child) { return child->groups[group].block != nullptr; };
    const Node::Held& held = node.groups[group];
    if (!held.block || held.block.use_count() > 1) continue;
    if (!groups_[group].has_window && std::any_of(node.children.begin(), node.children.end(), has_block)) continue;
    if (oldest.node == nullptr || held.used <= oldest.held().used) oldest = {&node, group};
  }
  for (const auto& child : node.children) find_oldest(*child, oldest);
}

bool PrefixCache::evict() {
  Place oldest;
  for (const auto& root : roots_) find_oldest(root->node, oldest);
  if (oldest.node == nullptr) return false;
  oldest.held().block = nullptr;
  if (!groups_[oldest.group].has_window) {  // without this block the others of the node are of no use
    for (Node::Held& held : oldest.node->groups) held.block = nullptr;
  }
  prune(oldest.node);
  return true;
}

void PrefixCache::trim() {
  while (idle_bytes() > most_idle_bytes_ && evict()) {
  }
}

/// Removes the node, and those above it, if they have become empty.
void PrefixCache::prune(Node* node) {
  while (node->is_empty()) {
    Node* const parent = node->parent;
    const auto is_node = [&](const auto& other) { return other.get() == node; };
    if (parent == nullptr) {
      std::erase_if(roots_, [&](const auto& root) { return &root->node == node; });
      return;
    }
    std::erase_if(parent->children, is_node);
    node = parent;
  }
}

std::int64_t PrefixCache::idle_bytes() const {
  std::int64_t bytes = 0;
  const auto add = [&](const auto& self, const Node& node) -> void {
    for (std::size_t group = 0; group < node.groups.size(); ++group) {
      if (node.groups[group].block.use_count() == 1) bytes += groups_[group].block_bytes;
    }
    for (const auto& child : node.children) self(self, *child);
  };
  for (const auto& root : roots_) add(add, root->node);
  return bytes;
}

}  // namespace vitrine
