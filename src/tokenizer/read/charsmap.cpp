#include "tokenizer/read/charsmap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little, "units are copied from the blob without conversion");

// The largest published map, nmt_nfkc_cf, has 0.3 MB of units, rules of up to 18 bytes and replacements of up to 33.
constexpr std::size_t kMaxCharsmapTrieBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxRuleBytes = 256;
constexpr std::size_t kMaxReplacementBytes = 256;

bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFU; }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

}  // namespace

Charsmap Charsmap::parse(std::string_view blob, std::string_view where) {
  Charsmap map;
  if (blob.empty()) return map;
  std::uint32_t trie_bytes = 0;
  if (blob.size() <= sizeof trie_bytes) {
    throw BadCheckpoint(where, "expected a character map of more than 4 bytes, got {}", blob.size());
  }
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes >= blob.size() || trie_bytes > kMaxCharsmapTrieBytes) {
    throw BadCheckpoint(where, "expected a character map's trie of whole 4-byte units within {} bytes, got {} bytes",
                        std::min(blob.size(), kMaxCharsmapTrieBytes), trie_bytes);
  }
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), blob.data(), trie_bytes);
  map.replacements_ = blob.substr(trie_bytes);
  if (map.replacements_.back() != '\0') {
    throw BadCheckpoint(where, "expected NUL after the last replacement of the character map, got another byte");
  }
  map.check(where);
  return map;
}

/// Visits every state that a text can reach. The children of a state are the units at `state ^ byte`.
void Charsmap::check(std::string_view where) const {
  std::vector<bool> visited(units_.size());
  std::vector<std::uint32_t> to_visit;
  const auto visit = [&](std::uint32_t state) {
    if ((state | 0xFF) >= units_.size()) {
      throw BadCheckpoint(where, "expected states of the character map within its {} units, got one at {}",
                          units_.size(), state);
    }
    if (visited[state]) return;
    visited[state] = true;
    to_visit.push_back(state);
  };
  visit(offset(units_[0]));
  while (!to_visit.empty()) {
    const std::uint32_t state = to_visit.back();
    to_visit.pop_back();
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t unit = units_[state ^ byte];
      if (label(unit) != byte) continue;
      const std::uint32_t next = state ^ byte ^ offset(unit);
      visit(next);
      if (has_leaf(unit)) check_replacement(units_[next], where);
    }
  }
}

void Charsmap::check_replacement(std::uint32_t leaf, std::string_view where) const {
  const std::size_t start = value(leaf);
  if (start >= replacements_.size()) {
    throw BadCheckpoint(where, "expected replacements of the character map within {} bytes, got one at {}",
                        replacements_.size(), start);
  }
  std::string_view text = replacements_.c_str() + start;
  if (text.size() > kMaxReplacementBytes) {
    throw BadCheckpoint(where, "expected replacements of at most {} bytes, got {}", kMaxReplacementBytes, text.size());
  }
  if (!is_valid_utf8(text)) throw BadCheckpoint(where, "expected replacements in UTF-8, got other bytes at {}", start);
}

Charsmap::Match Charsmap::find(std::string_view text, bool shortest) const {
  Match match;
  if (units_.empty()) return match;
  std::uint32_t state = offset(units_[0]);
  const std::size_t end = std::min(text.size(), kMaxRuleBytes);  // a malformed trie may contain a cycle
  for (std::size_t i = 0; i < end; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::uint32_t unit = units_[state ^ byte];
    if (label(unit) != byte) break;
    state ^= byte ^ offset(unit);
    if (!has_leaf(unit)) continue;
    match = {i + 1, replacements_.c_str() + value(units_[state])};
    if (shortest) break;
  }
  return match;
}

}  // namespace vitrine
