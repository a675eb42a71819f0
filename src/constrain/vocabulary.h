// A vocabulary as a trie of the bytes of its tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constrain/char_set.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::constrain {

struct CharacterTable;

/// One bit for each id.
class Mask {
 public:
  explicit Mask(std::int64_t n_ids = 0) : n_ids_(n_ids), words_(static_cast<std::size_t>((n_ids + 63) / 64), 0) {}
  void set(std::int32_t id) { words_[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64); }
  void clear(std::int32_t id) { words_[static_cast<std::size_t>(id) / 64] &= ~(std::uint64_t{1} << (id % 64)); }
  bool test(std::int32_t id) const { return (words_[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0; }
  Mask& operator|=(const Mask& other);
  std::int64_t count() const;
  std::int32_t first() const;  ///< The lowest id; -1: none.
  std::int64_t n_ids() const { return n_ids_; }
  /// The bits, eight a byte, the lowest first.
  std::vector<unsigned char> bytes() const;
  std::span<const std::uint64_t> words() const { return words_; }
  bool operator==(const Mask&) const = default;

 private:
  std::int64_t n_ids_;
  std::vector<std::uint64_t> words_;
};

/// The text tokens of a tokenizer by their bytes. Immutable and thread-safe. Special tokens, those that end a text and
/// ids without bytes are not in it.
class Vocabulary {
 public:
  struct TrieNode {
    std::uint8_t byte;
    std::uint8_t depth;  ///< Bytes from the root, at most 255.
    std::int32_t end;    ///< After the last node below this one: nodes are in depth-first order.
    std::int32_t parent;
    std::int32_t first_token;  ///< An id with these bytes; -1: none.
  };

  /// `stop_ids`: more ids that end a text. Throws BadInput for a token of more than 255 bytes that is text.
  explicit Vocabulary(const Tokenizer& tokenizer, std::span<const std::int32_t> stop_ids = {});

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// "" for ids that are not text.
  std::string_view bytes(std::int32_t id) const { return bytes_[static_cast<std::size_t>(id)]; }
  bool is_text(std::int32_t id) const { return !bytes(id).empty(); }
  bool is_stop(std::int32_t id) const;
  const std::vector<std::int32_t>& stop_ids() const { return stop_ids_; }
  /// The characters that its tokens can write. All, in most vocabularies.
  const CharSet& alphabet() const { return alphabet_; }
  /// The id that the vocabulary spells `piece`; -1: none.
  std::int32_t find_piece(std::string_view piece) const;

  /// The special token with the longest piece, of at least 3 bytes, with which `text` begins; -1: none.
  std::int32_t special_at(std::string_view text) const;
  /// How the vocabulary spells an id that is not text.
  std::string_view piece(std::int32_t id) const { return special_pieces_.at(id); }

  /// Node 0 is the root, with depth 0.
  std::span<const TrieNode> trie() const { return trie_; }
  /// The node that these bytes lead to; -1: none.
  std::int32_t find_node(std::string_view bytes) const;
  /// The next id with the same bytes; -1: none.
  std::int32_t next_token(std::int32_t id) const { return next_token_[static_cast<std::size_t>(id)]; }
  /// The nodes that `byte` leads to, ascending.
  std::span<const std::int32_t> nodes_of(std::uint8_t byte) const { return nodes_of_[byte]; }
  int max_depth() const { return max_depth_; }

  /// Tables of character_table(), of which the last few are kept. Null if there is none for `key`.
  std::shared_ptr<const CharacterTable> known_table(const std::string& key) const;
  void keep_table(const std::string& key, std::shared_ptr<const CharacterTable> table) const;

 private:
  void build_trie();
  void find_alphabet();

  std::vector<std::string> bytes_;
  std::vector<std::int32_t> stop_ids_, next_token_;
  std::unordered_map<std::string, std::int32_t> pieces_;
  std::unordered_map<std::int32_t, std::string> special_pieces_;
  std::size_t longest_piece_ = 0;
  std::vector<TrieNode> trie_;
  std::vector<std::int32_t> nodes_of_[256];
  int max_depth_ = 0;
  mutable std::mutex tables_mutex_;
  mutable std::vector<std::pair<std::string, std::shared_ptr<const CharacterTable>>> tables_;  // the last one used last
  CharSet alphabet_;
};

/// Calls `visit(id)` for the tokens whose bytes end at a node of the trie.
template <class Visit>
void for_each_token(const Vocabulary& vocabulary, std::int32_t trie_node, Visit visit) {
  std::int32_t id = vocabulary.trie()[static_cast<std::size_t>(trie_node)].first_token;
  for (; id >= 0; id = vocabulary.next_token(id)) visit(id);
}

}  // namespace vitrine::constrain
