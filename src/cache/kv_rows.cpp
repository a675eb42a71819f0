// Keys and values by position, as they are stored outside of caches.
#include <algorithm>
#include <cstring>

#include "cache/kv_cache.h"

namespace vitrine {

std::int64_t KvCache::row_bytes() const {
  std::int64_t bytes = 0;
  for (const std::optional<KvLayer>& layer : layers_) bytes += layer ? layer->token_bytes : 0;
  return bytes;
}

/// Calls copy(in_block, offset, bytes) for the row of every head: where it is in a block, and in the rows of positions.
template <class Copy>
void KvCache::for_each_row(std::int64_t first, std::int64_t count, Copy copy) const {
  const std::int64_t position_bytes = row_bytes();
  std::int64_t in_position = 0;
  for (const std::optional<KvLayer>& layer : layers_) {
    if (!layer) continue;
    const std::vector<KvBlock>& blocks = groups_[layer->group].blocks;
    const KvPlace parts[] = {layer->keys, layer->values};
    for (const KvPlace& part : std::span(parts).first(layer->one_row ? 1 : 2)) {
      const std::int64_t bytes = part.row_bytes();
      for (std::int64_t head = 0; head < layer->n_kv_heads; ++head) {
        const std::int64_t offset = place_of(part, head).offset;
        for (std::int64_t i = 0; i < count; ++i) {
          std::byte* const block = blocks[static_cast<std::size_t>((first + i) / block_length_)].get();
          copy(block + offset + (first + i) % block_length_ * bytes, i * position_bytes + in_position,
               static_cast<std::size_t>(bytes));
        }
        in_position += bytes;
      }
    }
  }
}

bool KvCache::get_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const {
  const std::int64_t begin = first / block_length_, end = static_cast<std::int64_t>(n_blocks(first + count));
  for (const KvGroup& group : groups_) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (i >= std::ssize(group.blocks) || !group.blocks[static_cast<std::size_t>(i)]) return false;
    }
  }
  for_each_row(first, count, [&](const std::byte* row, std::int64_t offset, std::size_t bytes) {
    std::memcpy(to.data() + offset, row, bytes);
  });
  return true;
}

void KvCache::put_rows(std::int64_t first, std::int64_t count, std::span<const std::byte> from) {
  for_each_row(first, count, [&](std::byte* row, std::int64_t offset, std::size_t bytes) {
    std::memcpy(row, from.data() + offset, bytes);
  });
}

}  // namespace vitrine
