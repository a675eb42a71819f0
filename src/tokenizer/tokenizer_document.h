// A tokenizer.json as read: the vocabulary and the merges in flat tables, everything else as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/piece_table.h"

namespace vitrine {

/// Merges as they are written: pairs of pieces in one string.
class WrittenMerges {
 public:
  struct Pair {
    std::string_view left, right;
  };
  void add(std::string_view left, std::string_view right);
  std::size_t size() const { return sizes_.size(); }

  /// Calls `visit(pair)` for each in order.
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
  Json rest;  ///< Whole, but for model.vocab and model.merges, which are null.
  PieceTable pieces;
  bool has_vocab = false;
  bool has_merges = false;
  bool is_scored = false;      ///< The vocabulary is a list of [piece, score].
  std::vector<double> scores;  ///< By id, where is_scored.
  WrittenMerges merges;
};

constexpr std::size_t kMaxScoredPieces = std::size_t{1} << 19;     // twice the largest known
constexpr std::size_t kMaxTokenizerBytes = std::size_t{64} << 20;  // the largest known has 33 MB

/// Throws BadCheckpoint on anything malformed, Unsupported where the file is larger than kMaxTokenizerBytes.
TokenizerDocument parse_tokenizer_document(std::string_view text, std::string_view where);

/// A vocab.json: an object of pieces and their ids.
PieceTable parse_vocab_json(std::string_view text, std::string_view where);

/// Adds a merge written as "left right". Where a piece holds a space itself, the whole line is kept as the left piece,
/// beside an empty right one, until the vocabulary tells which space is meant. Throws BadCheckpoint where there is
/// none.
void add_merge_line(std::string_view line, WrittenMerges& merges, std::string_view where);

}  // namespace vitrine
