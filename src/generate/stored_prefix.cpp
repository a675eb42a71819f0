#include "generate/stored_prefix.h"

#include <algorithm>
#include <array>
#include <utility>

namespace vitrine {
namespace {

/// The name of what comes after `before`.
BlockName name_after(const BlockName& before, std::string_view kind, std::span<const std::int32_t> ids) {
  std::array<std::byte, sizeof(std::int32_t) * StoredPrefix::kBlock> bytes{};
  std::size_t n = 0;
  for (const std::int32_t id : ids) {
    for (unsigned shift = 0; shift < 32; shift += 8) bytes[n++] = static_cast<std::byte>(std::uint32_t(id) >> shift);
  }
  Digest digest = Digest::sha256();
  digest.update(before);
  digest.update_text(kind);
  digest.update(std::uint64_t{n});
  digest.update(std::span(bytes).first(n));
  return digest.finish_sha256();
}

}  // namespace

StoredPrefix::StoredPrefix(ModelStore& store, const BlockName& root, std::int64_t state_every)
    : store_(store), chain_{root}, state_every_(state_every) {}

void StoredPrefix::restart() {
  is_done_ = false;
  n_kept_ = states_kept_ = 0;
}

const BlockName& StoredPrefix::chain(Ids ids, std::int64_t n_blocks) {
  while (std::ssize(chain_) <= n_blocks) {
    const std::int64_t first = (std::ssize(chain_) - 1) * kBlock;
    chain_.push_back(name_after(chain_.back(), "ids", ids.subspan(static_cast<std::size_t>(first), kBlock)));
  }
  return chain_[static_cast<std::size_t>(n_blocks)];
}

BlockName StoredPrefix::keys_name(Ids ids, std::int64_t block) {
  return name_after(chain(ids, block + 1), "keys and values", {});
}

BlockName StoredPrefix::states_name(Ids ids, std::int64_t length) {
  const std::int64_t whole = length / kBlock * kBlock;
  const Ids rest = ids.subspan(static_cast<std::size_t>(whole), static_cast<std::size_t>(length - whole));
  return name_after(chain(ids, length / kBlock), "states", rest);
}

/// When a block that ends at `length` was used: a moment earlier than those before it. So the end of a text is removed
/// before its beginning, without which it is of no use.
UseTime StoredPrefix::used(std::int64_t length) const { return begin_ - std::chrono::milliseconds(length / kBlock); }

/// The greatest length after which the store has states, at most `most`; 0 if it has none for more than the cache.
std::int64_t StoredPrefix::find_states(Ids ids, std::int64_t most, const KvCache& cache) {
  if (most > cache.length() && store_.store().has(states_name(ids, most))) return most;
  for (std::int64_t n = most / state_every_ * state_every_; n > cache.length(); n -= state_every_) {
    if (store_.store().has(states_name(ids, n))) return n;
  }
  return 0;
}

std::int64_t StoredPrefix::ahead(Ids ids, std::int64_t most, const KvCache& cache) {
  if (is_done_) return 0;
  const std::int64_t length = cache.length(), end = (length / kBlock + 1) * kBlock;
  std::int64_t n = 0;
  if (cache.has_states()) {
    n = std::max<std::int64_t>(0, find_states(ids, most, cache) - length);
  } else if (length < most && end <= std::ssize(ids) && store_.store().has(keys_name(ids, length / kBlock))) {
    n = std::min(end, most) - length;
  }
  is_done_ = n == 0;
  return n;
}

std::int64_t StoredPrefix::load(Ids ids, std::int64_t most, KvCache& cache) {
  const std::int64_t n = ahead(ids, most, cache), length = cache.length();
  if (n == 0) return 0;
  cache.reserve(n);
  const bool has_loaded =
      cache.has_states() ? load_states(ids, length + n, cache) : put_rows(ids, length + n, cache, length);
  if (!has_loaded) return 0;
  cache.advance(n);
  store_.count_hits(n);
  return n;
}

bool StoredPrefix::read(const BlockName& name, std::span<std::byte> content, UseTime time) {
  const bool is_right = store_.store().read(name, content, time);
  found_wrong_ = found_wrong_ || !is_right;
  return is_right;
}

/// Whether the store has a block, which counts as used. Whatever has damaged one block may have damaged others.
bool StoredPrefix::has_kept(const BlockName& name, std::size_t size, UseTime time) {
  if (!found_wrong_) return store_.store().touch(name, time);
  return store_.store().read(name, store_.scratch(size), time);
}

/// Sets the keys and values from position `from` to `end`, those of whole blocks.
bool StoredPrefix::put_rows(Ids ids, std::int64_t end, KvCache& cache, std::int64_t from) {
  const std::int64_t row = cache.row_bytes();
  const std::span<std::byte> content = store_.scratch(static_cast<std::size_t>(kBlock * row));
  while (row > 0 && from < end) {
    const std::int64_t block = from / kBlock, in_block = from % kBlock;
    const std::int64_t count = std::min(end - from, kBlock - in_block);
    is_done_ = !read(keys_name(ids, block), content, used((block + 1) * kBlock));
    if (is_done_) return false;
    cache.put_rows(from, count, content.subspan(static_cast<std::size_t>(in_block * row)));
    from += count;
  }
  return true;
}

bool StoredPrefix::load_states(Ids ids, std::int64_t length, KvCache& cache) {
  const std::int64_t whole = length / kBlock * kBlock, row = cache.row_bytes();
  const std::int64_t known = cache.length();
  std::vector<std::byte> content(static_cast<std::size_t>((length - whole) * row + cache.packed_state_bytes()));
  const BlockName name = states_name(ids, length);
  if (!read(name, content, used(length))) {
    is_done_ = store_.store().has(name);  // it cannot be removed; else earlier states may be right
    return false;
  }
  if (!put_rows(ids, whole, cache, known)) return false;
  const std::int64_t first = std::max(whole, known);
  const auto rows = std::span<const std::byte>(content);
  cache.put_rows(first, length - first, rows.subspan(static_cast<std::size_t>((first - whole) * row)));
  cache.put_states(rows.subspan(static_cast<std::size_t>((length - whole) * row)));
  return true;
}

void StoredPrefix::keep(Ids ids, const KvCache& cache, bool with_states) {
  const std::int64_t length = cache.length(), bytes = kBlock * cache.row_bytes();
  n_kept_ = std::min(n_kept_, length);
  for (std::int64_t block = n_kept_ / kBlock; bytes > 0 && (block + 1) * kBlock <= length; ++block) {
    const auto size = static_cast<std::size_t>(bytes);
    const BlockName name = keys_name(ids, block);
    const UseTime time = used((block + 1) * kBlock);
    if (has_kept(name, size, time) || !store_.store().has_space(size)) continue;
    BlockBytes content(size);
    if (cache.get_rows(block * kBlock, kBlock, content.span())) store_.store().write(name, std::move(content), time);
  }
  n_kept_ = length;
  if (with_states && cache.has_states() && length != states_kept_) keep_states(ids, cache);
}

void StoredPrefix::keep_states(Ids ids, const KvCache& cache) {
  const std::int64_t length = cache.length(), whole = length / kBlock * kBlock;
  const auto n_rows = static_cast<std::size_t>((length - whole) * cache.row_bytes());
  const std::size_t size = n_rows + static_cast<std::size_t>(cache.packed_state_bytes());
  const BlockName name = states_name(ids, length);
  states_kept_ = length;
  if (has_kept(name, size, used(length)) || !store_.store().has_space(size)) return;
  BlockBytes content(size);
  if (!cache.get_rows(whole, length - whole, content.span().first(n_rows))) return;
  cache.get_states(content.span().subspan(n_rows));
  store_.store().write(name, std::move(content), used(length));
}

}  // namespace vitrine
