// The names of the stored blocks of a model: a hash of everything that decides their bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "checkpoint/load.h"
#include "generate/context.h"
#include "generate/prefix_cache.h"
#include "store/prefix_store.h"

namespace vitrine {

/// The part of a store that belongs to a model. Used from one thread at a time; several models may share a store.
class ModelStore {
 public:
  /// The weights are named by the content of the checkpoint's files, which is read here. `context`: of the sequences.
  /// Throws Unsupported for a model whose cache cannot be stored, and naming why.
  ModelStore(PrefixStore& store, const Checkpoint& checkpoint, const GenerateContext& context);

  PrefixStore& store() const { return store_; }
  /// That of the blocks before the first id, for sequences with this key and these modifiers, which are those of the
  /// key.
  BlockName root(const PrefixKey& key, const Modifiers& modifiers);

  /// Memory for a block that is being read.
  std::span<std::byte> scratch(std::size_t bytes) {
    scratch_.resize(std::max(scratch_.size(), bytes));
    return std::span(scratch_).first(bytes);
  }
  void count_hits(std::int64_t tokens) { hit_tokens_ += tokens; }
  std::int64_t hit_tokens() const { return hit_tokens_; }  ///< Tokens that sequences did not compute.

 private:
  template <class Modifier>
  const Sha256& hash_of(const Modifier& modifier);

  PrefixStore& store_;
  Sha256 model_{};
  std::map<std::uint64_t, Sha256> modifiers_;  // by their identity
  std::vector<std::byte> scratch_;
  std::int64_t hit_tokens_ = 0;
};

}  // namespace vitrine
