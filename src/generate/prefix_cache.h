// Keys, values and states of texts that sequences have read, for later sequences that begin with the same tokens:
// prefix caching with a radix tree of blocks.
//
// Texts are a tree of blocks. A node has the ids of one block and its keys and values, those of each group of layers:
//
//   root ── "You are a helpful …" ──┬── "What is …"          the last node of a text may have fewer ids
//                                   └── "Write a …" ── "…"
//
// A sequence shares whole blocks and the beginning of one more, which it copies before it writes to it. If layers have
// states, a node also has snapshots of them, after some of its ids, and a sequence begins with the deepest snapshot
// within the ids that it has in common with the tree. Positions have the same bits in every sequence with the same ids
// up to them, so sharing changes no result.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "pass/modifiers.h"

namespace vitrine {

/// What two sequences must have in common, in addition to their ids, to share keys and values.
struct PrefixKey {
  std::string owner;                     ///< Others must not learn from its speed what an owner's texts begin with.
  std::int64_t planned_length = 0;       ///< As longest_planned_length() returns it: it determines RoPE frequencies.
  std::vector<ModifierKey> modifiers{};  ///< Of what changes keys and values.

  bool operator==(const PrefixKey&) const = default;
};

/// For caches of one model, with the same type and block length. Not thread-safe.
class PrefixCache {
 public:
  /// `max_idle_bytes`: what trim() leaves of the blocks and snapshots that no sequence uses.
  explicit PrefixCache(std::int64_t max_idle_bytes = std::numeric_limits<std::int64_t>::max());
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache();

  /// Lets an empty cache begin with as many of the ids as are known, at most `most`. Returns their number.
  std::int64_t restore(const PrefixKey& key, std::span<const std::int32_t> ids, std::int64_t most, KvCache& cache);
  /// Keeps the blocks of a cache, which holds the first of the ids. `with_last`: also the last block if it has fewer
  /// tokens than fit. The cache copies it before it writes to it. The cache gives up its snapshots within these blocks.
  void keep(const PrefixKey& key, std::span<const std::int32_t> ids, KvCache& cache, bool with_last);
  /// Frees the block or snapshot that has not been used for the longest time, among those that no sequence uses, and
  /// the snapshots of a block with it. Returns false if there is none.
  bool evict();
  /// Frees these until the idle ones have at most `max_idle_bytes`.
  void trim();
  /// The bytes of the blocks and snapshots that no sequence uses.
  std::int64_t idle_bytes() const;

 private:
  struct Group {
    bool has_window;
    std::int64_t block_bytes;
  };
  struct Node;
  struct Root;
  struct Place;
  struct Match;

  Node* find(const PrefixKey& key) const;
  Node& find_or_add(const PrefixKey& key);
  Node& find_or_add(Node& parent, std::span<const std::int32_t> ids);
  static std::vector<Match> find_matches(Node* root, std::span<const std::int32_t> ids, const KvCache& cache);
  void use(std::span<Node* const> path, std::int64_t length, const KvCache& cache);
  static bool has(std::span<Node* const> path, std::int64_t length, const KvCache& cache);
  void find_oldest(Node& node, Place& oldest) const;
  void prune(Node* node);

  std::vector<std::unique_ptr<Root>> roots_;
  std::vector<Group> groups_;
  std::int64_t snapshot_bytes_ = 0;
  std::uint64_t clock_ = 0;
  std::int64_t max_idle_bytes_;
};

}  // namespace vitrine
