// What a sequence takes from the prefix store, and gives to it.
//
//   ids       0        64       128      192      …
//   blocks    [ K V    ][ K V   ][ K V   ]           64 positions each, of all layers
//   states                           s               after some ids, with the keys and values since the last block
//
// The name of a block is a hash of the name of the block before it and of its ids, so it stands for all ids up to its
// end. Sequences that begin alike have the blocks of their common ids in common, whatever the blocks of their caches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/model_store.h"

namespace vitrine {

class StoredPrefix {
 public:
  /// The positions of a block. Of a prefix, fewer than these are read again.
  static constexpr std::int64_t kBlock = 64;

  /// States are looked for after each `state_every` ids.
  StoredPrefix(ModelStore& store, const BlockName& root, std::int64_t state_every);

  /// How many of the ids after those in the cache load() will provide, so that at most `most` are in the cache then; 0
  /// if the store has no more of them. With states, these are all up to the last state that the store has.
  std::int64_t ahead(std::span<const std::int32_t> ids, std::int64_t most, const KvCache& cache);
  /// Adds these to the cache, which must have memory for them. Returns their number: 0 if a block was wrong, which is
  /// then no longer looked for.
  std::int64_t load(std::span<const std::int32_t> ids, std::int64_t most, KvCache& cache);
  /// Stores the blocks that the cache has completed since the last call, and, if `with_states`, its states.
  void keep(std::span<const std::int32_t> ids, const KvCache& cache, bool with_states);
  /// The cache is another one, without tokens.
  void restart();

 private:
  using Ids = std::span<const std::int32_t>;

  const BlockName& chain(Ids ids, std::int64_t n_blocks);
  BlockName keys_name(Ids ids, std::int64_t block);
  BlockName states_name(Ids ids, std::int64_t length);
  UseTime used(std::int64_t length) const;
  std::int64_t find_states(Ids ids, std::int64_t most, const KvCache& cache);
  bool put_rows(Ids ids, std::int64_t end, KvCache& cache, std::int64_t from);
  bool load_states(Ids ids, std::int64_t length, KvCache& cache);
  bool read(const BlockName& name, std::span<std::byte> content, UseTime time);
  bool has_kept(const BlockName& name, std::size_t size, UseTime time);
  void keep_states(Ids ids, const KvCache& cache);

  ModelStore& store_;
  std::vector<BlockName> chain_;  // after 0, 1, … blocks of ids
  std::int64_t state_every_;
  std::int64_t n_kept_ = 0;       // the positions of blocks that keep() has seen
  std::int64_t states_kept_ = 0;  // and the length of the last states
  bool is_done_ = false;          // the store has no more of the ids
  bool found_wrong_ = false;      // a block was wrong: others of the text are read before they count as kept
  UseTime begin_ = std::chrono::system_clock::now();
};

}  // namespace vitrine
