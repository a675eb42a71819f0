#include "constrain/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {

Mask& Mask::operator|=(const Mask& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

std::int64_t Mask::count() const {
  std::int64_t n = 0;
  for (const std::uint64_t w : words_) n += std::popcount(w);
  return n;
}

std::int32_t Mask::first() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) return static_cast<std::int32_t>(64 * i) + std::countr_zero(words_[i]);
  }
  return -1;
}

std::vector<unsigned char> Mask::bytes() const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>((n_ids_ + 7) / 8));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(words_[i / 8] >> (i % 8 * 8));
  return bytes;
}

Vocabulary::Vocabulary(const Tokenizer& tokenizer, std::span<const std::int32_t> stop_ids)
    : stop_ids_(tokenizer.stop_ids()) {
  stop_ids_.insert(stop_ids_.end(), stop_ids.begin(), stop_ids.end());
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
  bytes_.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(bytes_.size()); ++id) {
    std::string& bytes = bytes_[static_cast<std::size_t>(id)];
    if (!is_stop(id) && tokenizer.is_text(id)) bytes = tokenizer.bytes(id);
    if (bytes.size() > 255) bytes.clear();  // longer than any step of a constraint: a document's separator
    if (!bytes.empty()) continue;
    pieces_.emplace(tokenizer.piece(id), id);
    special_pieces_.emplace(id, tokenizer.piece(id));
    longest_piece_ = std::max(longest_piece_, tokenizer.piece(id).size());
  }
  build_trie();
  find_alphabet();
}

std::int32_t Vocabulary::special_at(std::string_view text) const {
  constexpr std::size_t kShortest = 3;
  for (std::size_t size = std::min(longest_piece_, text.size()); size >= kShortest; --size) {
    const auto known = pieces_.find(std::string(text.substr(0, size)));
    if (known != pieces_.end()) return known->second;
  }
  return -1;
}

std::int32_t Vocabulary::find_node(std::string_view bytes) const {
  std::int32_t node = 0;
  for (const char byte : bytes) {
    const std::int32_t end = trie_[static_cast<std::size_t>(node)].end;
    std::int32_t child = node + 1;
    while (child < end && trie_[static_cast<std::size_t>(child)].byte != static_cast<std::uint8_t>(byte)) {
      child = trie_[static_cast<std::size_t>(child)].end;
    }
    if (child >= end) return -1;
    node = child;
  }
  return node;
}

bool Vocabulary::is_stop(std::int32_t id) const { return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id); }

std::shared_ptr<const CharacterTable> Vocabulary::known_table(const std::string& key) const {
  const std::lock_guard lock(tables_mutex_);
  const auto known = std::find_if(tables_.begin(), tables_.end(), [&](const auto& t) { return t.first == key; });
  if (known == tables_.end()) return nullptr;
  std::rotate(known, known + 1, tables_.end());
  return tables_.back().second;
}

void Vocabulary::keep_table(const std::string& key, std::shared_ptr<const CharacterTable> table) const {
  constexpr std::size_t kMaxTables = 16;  // about 2 MB each for 150,000 tokens
  const std::lock_guard lock(tables_mutex_);
  if (tables_.size() >= kMaxTables) tables_.erase(tables_.begin());
  tables_.emplace_back(key, std::move(table));
}

std::int32_t Vocabulary::find_piece(std::string_view piece) const {
  const auto special = pieces_.find(std::string(piece));
  if (special != pieces_.end()) return special->second;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(bytes_.size()); ++id) {
    if (bytes(id) == piece) return id;
  }
  return -1;
}

void Vocabulary::build_trie() {
  next_token_.assign(bytes_.size(), -1);
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(bytes_.size()); ++id) {
    if (is_text(id)) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return bytes(a) < bytes(b); });
  trie_.push_back({0, 0, 0, -1, -1});
  std::vector<std::int32_t> path{0};
  std::string_view last;
  for (const std::int32_t id : ids) {
    const std::string_view text = bytes(id);
    const auto common = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    for (std::size_t i = common + 1; i < path.size(); ++i) {
      trie_[static_cast<std::size_t>(path[i])].end = static_cast<std::int32_t>(trie_.size());
    }
    path.resize(common + 1);
    for (std::size_t i = common; i < text.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      trie_.push_back({byte, static_cast<std::uint8_t>(i + 1), 0, path.back(), -1});
      path.push_back(static_cast<std::int32_t>(trie_.size() - 1));
      nodes_of_[byte].push_back(path.back());
    }
    std::int32_t& first = trie_[static_cast<std::size_t>(path.back())].first_token;
    next_token_[static_cast<std::size_t>(id)] = first;
    first = id;
    last = text;
    max_depth_ = std::max(max_depth_, static_cast<int>(text.size()));
  }
  for (const std::int32_t n : path) trie_[static_cast<std::size_t>(n)].end = static_cast<std::int32_t>(trie_.size());
}

namespace {

/// Which bytes are tokens.
using Bytes = std::array<bool, 256>;

/// The characters whose bytes are all tokens, where all continuation bytes are.
CharSet characters_by_lead(const Bytes& has) {
  CharSet all;
  const auto add = [&](std::size_t lead, std::uint32_t first, std::uint32_t last) {
    if (has[lead]) all = all | CharSet::range(first, last);
  };
  for (std::uint32_t lead = 0; lead < 0x80; ++lead) add(lead, lead, lead);
  for (std::uint32_t lead = 0xC2; lead < 0xE0; ++lead) add(lead, (lead & 0x1F) << 6, (lead & 0x1F) << 6 | 0x3F);
  for (std::uint32_t lead = 0xE0; lead < 0xF0; ++lead) {
    const std::uint32_t first = (lead & 0x0F) << 12;
    add(lead, std::max(first, 0x800U), first | 0xFFF);
  }
  for (std::uint32_t lead = 0xF0; lead < 0xF5; ++lead) {
    const std::uint32_t first = (lead & 0x07) << 18;
    add(lead, std::max(first, 0x10000U), first | 0x3FFFF);
  }
  return all;
}

/// The same for any bytes, character by character.
std::vector<std::uint32_t> characters_by_bytes(const Bytes& has) {
  std::vector<std::uint32_t> characters;
  const bool has_others = std::any_of(has.begin() + 0x80, has.end(), [](bool h) { return h; });
  const CharSet candidates = CharSet::range(0, has_others ? 0x10FFFF : 0x7F);
  for (const CharRange& r : candidates.ranges()) {
    for (std::uint32_t c = r.first; c <= r.last; ++c) {
      std::string text;
      append_code_point(c, text);
      const bool is_written =
          std::all_of(text.begin(), text.end(), [&](char b) { return has[static_cast<unsigned char>(b)]; });
      if (is_written) characters.push_back(c);
    }
  }
  return characters;
}

CharSet set_of(std::vector<std::uint32_t> characters) {
  std::sort(characters.begin(), characters.end());
  std::vector<CharRange> runs;
  for (const std::uint32_t c : characters) {
    if (!runs.empty() && c <= runs.back().last + 1) {
      runs.back().last = c;
    } else {
      runs.push_back({c, c});
    }
  }
  return CharSet::of_ranges(std::move(runs));
}

}  // namespace

void Vocabulary::find_alphabet() {
  Bytes has{};
  std::vector<std::uint32_t> characters;  // that are tokens
  for (const std::string& token : bytes_) {
    if (token.size() == 1) has[static_cast<unsigned char>(token[0])] = true;
    if (token.size() > 1 && is_valid_utf8(token) && length_by_lead(token[0]) == token.size()) {
      characters.push_back(code_point(token));
    }
  }
  alphabet_ = set_of(std::move(characters));
  const bool has_continuations = std::all_of(has.begin() + 0x80, has.begin() + 0xC0, [](bool h) { return h; });
  alphabet_ = alphabet_ | (has_continuations ? characters_by_lead(has) : set_of(characters_by_bytes(has)));
}

}  // namespace vitrine::constrain
