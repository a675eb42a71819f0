#include "generate/prefix_cache.h"

#include <algorithm>

namespace vitrine {

/// The ids of a block, its keys and values in each group of layers, or null, and the snapshots of states within it.
struct PrefixCache::Node {
  struct Held {
    KvBlock block;
    std::uint64_t used = 0;  // by the clock
  };
  struct Snapshot {
    std::int64_t length;  // of the text
    Held states;
  };

  Node* parent = nullptr;
  std::vector<std::int32_t> ids{};
  std::vector<Held> groups{};
  std::vector<Snapshot> snapshots{};
  std::vector<std::unique_ptr<Node>> children{};

  bool is_empty() const {
    return children.empty() && snapshots.empty() &&
           std::none_of(groups.begin(), groups.end(), [](const Held& held) { return held.block; });
  }
  std::size_t n_held() const { return groups.size() + snapshots.size(); }
  Held& held(std::size_t number) {
    return number < groups.size() ? groups[number] : snapshots[number - groups.size()].states;
  }
  void keep(const Snapshot& snapshot) {
    const auto same = [&](const Snapshot& own) { return own.length == snapshot.length; };
    if (std::none_of(snapshots.begin(), snapshots.end(), same)) snapshots.push_back(snapshot);
  }
};

struct PrefixCache::Root {
  PrefixKey key;
  Node node{};
};

/// A block or snapshot of a node.
struct PrefixCache::Place {
  Node* node = nullptr;
  std::size_t number = 0;

  Node::Held& held() const { return node->held(number); }
};

/// Where a sequence may begin: after `length` ids, the last of which are in `node`.
struct PrefixCache::Match {
  Node* node = nullptr;
  std::int64_t length = 0;
  Node::Held* states = nullptr;  // null without states

  /// The nodes of these ids.
  std::vector<Node*> path() const {
    std::vector<Node*> nodes;
    for (Node* at = node; at->parent != nullptr; at = at->parent) nodes.insert(nodes.begin(), at);
    return nodes;
  }
};

namespace {

using IdSpan = std::span<const std::int32_t>;

std::size_t n_common(IdSpan a, IdSpan b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

PrefixCache::PrefixCache(std::int64_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}
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
  for (std::size_t group = 0; group < cache.groups().size(); ++group) {
    const auto first = static_cast<std::size_t>(cache.groups()[group].first_kept(length) / cache.block_length());
    for (std::size_t i = first; i < path.size(); ++i) path[i]->groups[group].used = clock_;
  }
}

/// Where a sequence that begins with the ids may begin, in ascending length.
std::vector<PrefixCache::Match> PrefixCache::find_matches(Node* root, IdSpan ids, const KvCache& cache) {
  std::vector<Match> matches;
  std::int64_t first = 0;  // of a node
  for (Node* node = root; node != nullptr && !ids.empty();) {
    Node* nearest = nullptr;
    std::size_t n = 0;
    for (const auto& child : node->children) {
      const std::size_t own = n_common(child->ids, ids);
      for (Node::Snapshot& snapshot : child->snapshots) {
        const bool fits = snapshot.length <= first + static_cast<std::int64_t>(own);
        if (fits) matches.push_back({child.get(), snapshot.length, &snapshot.states});
      }
      if (own > n) nearest = child.get(), n = own;
    }
    if (nearest == nullptr) break;
    first += static_cast<std::int64_t>(n);
    if (!cache.has_states()) matches.push_back({nearest, first});
    ids = ids.subspan(n);
    node = n == static_cast<std::size_t>(cache.block_length()) ? nearest : nullptr;
  }
  std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.length < b.length; });
  return matches;
}

std::int64_t PrefixCache::restore(const PrefixKey& key, std::span<const std::int32_t> ids, std::int64_t most,
                                  KvCache& cache) {
  ids = ids.first(std::min(ids.size(), static_cast<std::size_t>(std::max<std::int64_t>(most, 0))));
  std::vector<Match> matches = find_matches(find(key), ids, cache);
  for (; !matches.empty(); matches.pop_back()) {
    const Match& match = matches.back();
    const std::vector<Node*> path = match.path();
    if (!has(path, match.length, cache)) continue;
    ++clock_;
    use(path, match.length, cache);
    if (match.states != nullptr) match.states->used = clock_;
    std::vector<std::vector<KvBlock>> blocks(cache.groups().size());
    for (std::size_t group = 0; group < blocks.size(); ++group) {
      const std::int64_t first_kept = cache.groups()[group].first_kept(match.length);
      const auto first = static_cast<std::size_t>(first_kept / cache.block_length());
      for (std::size_t i = 0; i < path.size(); ++i) {
        blocks[group].push_back(i < first ? nullptr : path[i]->groups[group].block);
      }
    }
    cache.share(match.length, std::move(blocks), match.states != nullptr ? match.states->block : nullptr);
    return match.length;
  }
  return 0;
}

/// The child of `parent` that begins with the ids.
PrefixCache::Node& PrefixCache::find_or_add(Node& parent, IdSpan ids) {
  const auto holds_ids = [&](const auto& child) { return n_common(child->ids, ids) == ids.size(); };
  const auto child = std::find_if(parent.children.begin(), parent.children.end(), holds_ids);
  if (child != parent.children.end()) return **child;
  auto added = std::make_unique<Node>(Node{&parent, {ids.begin(), ids.end()}});
  added->groups.resize(groups_.size());
  // A node that has only the first of these ids is not needed any more.
  const auto is_part = [&](const auto& other) { return n_common(other->ids, ids) == other->ids.size(); };
  const auto part = std::find_if(parent.children.begin(), parent.children.end(), is_part);
  if (part != parent.children.end()) {
    added->snapshots = std::move((*part)->snapshots);
    parent.children.erase(part);
  }
  return *parent.children.emplace_back(std::move(added));
}

void PrefixCache::keep(const PrefixKey& key, std::span<const std::int32_t> ids, KvCache& cache, bool with_last) {
  const auto block_length = static_cast<std::size_t>(cache.block_length());
  const auto length = static_cast<std::size_t>(cache.length());
  const bool keeps_nothing = cache.groups().empty() && !cache.has_states();
  if (keeps_nothing || length < (with_last ? 1 : block_length)) return;
  if (groups_.empty()) {
    for (const KvGroup& group : cache.groups()) groups_.push_back({group.window.has_value(), group.block_bytes});
  }
  snapshot_bytes_ = cache.snapshot_bytes();
  ++clock_;
  Node* node = &find_or_add(key);
  std::vector<Node*> path;
  for (std::size_t first = 0; first < length; first += block_length) {
    const IdSpan own = ids.subspan(first, std::min(block_length, length - first));
    if (own.size() < block_length && !with_last) break;
    node = &find_or_add(*node, own);
    path.push_back(node);
    for (std::size_t group = 0; group < groups_.size() && node->ids.size() == own.size(); ++group) {
      const std::vector<KvBlock>& blocks = cache.groups()[group].blocks;
      KvBlock& block = node->groups[group].block;
      if (!block && first / block_length < blocks.size()) block = blocks[first / block_length];
    }
    for (const StateSnapshot& snapshot : cache.snapshots()) {
      const bool is_within =
          std::cmp_greater(snapshot.length, first) && std::cmp_less_equal(snapshot.length, first + own.size());
      if (is_within) node->keep({snapshot.length, {snapshot.states, clock_}});
    }
  }
  use(path, cache.length(), cache);
  cache.drop_snapshots(with_last ? cache.length() : cache.length() / cache.block_length() * cache.block_length());
  prune(node);  // snapshots may be missing
}

/// Sets `oldest` to the block or snapshot below `node` that has not been used for the longest time, if that is longer
/// than for `oldest`. Layers without a window need all blocks before a position, so of theirs the last ones come first.
void PrefixCache::find_oldest(Node& node, Place& oldest) const {
  for (std::size_t i = 0; i < node.n_held(); ++i) {
    const auto has_block = [&](const auto& child) { return child->groups[i].block != nullptr; };
    const Node::Held& held = node.held(i);
    if (!held.block || held.block.use_count() > 1) continue;
    const bool needs_earlier = i < groups_.size() && !groups_[i].has_window;
    if (needs_earlier && std::any_of(node.children.begin(), node.children.end(), has_block)) continue;
    if (oldest.node == nullptr || held.used <= oldest.held().used) oldest = {&node, i};
  }
  for (const auto& child : node.children) find_oldest(*child, oldest);
}

bool PrefixCache::evict() {
  Place oldest;
  for (const auto& root : roots_) find_oldest(root->node, oldest);
  Node* const node = oldest.node;
  if (node == nullptr) return false;
  if (oldest.number >= groups_.size()) {
    node->snapshots.erase(node->snapshots.begin() + static_cast<std::ptrdiff_t>(oldest.number - groups_.size()));
  } else {
    oldest.held().block = nullptr;
    node->snapshots.clear();                   // of no use without this block
    if (!groups_[oldest.number].has_window) {  // nor are the other blocks
      for (Node::Held& held : node->groups) held.block = nullptr;
    }
  }
  prune(node);
  return true;
}

void PrefixCache::trim() {
  while (idle_bytes() > max_idle_bytes_ && evict()) {
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
    for (const Node::Snapshot& snapshot : node.snapshots) {
      if (snapshot.states.block.use_count() == 1) bytes += snapshot_bytes_;
    }
    for (const auto& child : node.children) self(self, *child);
  };
  for (const auto& root : roots_) add(add, root->node);
  return bytes;
}

}  // namespace vitrine
