// Reads a tokenizer.json: the vocabulary and the merges into flat tables, everything else as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/algorithms/piece_table.h"

namespace vitrine {

/// Pairs of pieces, stored in one string.
class MergeList {
 public:
  struct Pair {
    std::string_view left, right;
  };
  void add(std::string_view left, std::string_view right);
  std::size_t size() const { return sizes_.size(); }

  /// Calls `visit(pair)` for each pair, in order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    std::string_view rest = bytes_;
    for (const Sizes& s : sizes_) {
      visit(Pair{rest.substr(0, s.left), rest.substr(s.left, s.right)});
      rest.remove_prefix(std::size_t{s.left} + s.right);
    }
  }

 private:
  struct Sizes {
    std::uint32_t left, right;
  };
  std::string bytes_;
  std::vector<Sizes> sizes_;
};

struct TokenizerDocument {
  Json rest;  ///< The document, in which model.vocab and model.merges are null.
  PieceTable pieces;
  bool has_vocab = false;
  bool has_merges = false;
  bool is_scored = false;      ///< The vocabulary is a list of [piece, score].
  std::vector<double> scores;  ///< By id, if is_scored.
  MergeList merges;
  bool cleans_up = false;       ///< Tokenizer::cleans_up()
  bool splits_special = false;  ///< A special token that is written in a text is text ("split_special_tokens").
};

constexpr std::size_t kMaxScoredPieces = std::size_t{1} << 19;     // twice the largest published
constexpr std::size_t kMaxTokenizerBytes = std::size_t{64} << 20;  // the largest published has 33 MB

/// Throws BadCheckpoint if `text` is malformed, Unsupported if it is longer than kMaxTokenizerBytes.
TokenizerDocument parse_tokenizer_document(std::string_view text, std::string_view where);

/// Parses a vocab.json, an object that maps pieces to ids.
PieceTable parse_vocab_json(std::string_view text, std::string_view where);

/// Adds a merge "left right". If the line has several spaces, it is stored whole as the left piece with an empty right
/// one, because only the vocabulary determines where to split it. Throws BadCheckpoint if it has no space.
void add_merge_line(std::string_view line, MergeList& merges, std::string_view where);

}  // namespace vitrine
