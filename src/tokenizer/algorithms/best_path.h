// The Viterbi algorithm of unigram models: divides a text into the pieces whose scores have the largest sum.
//
// Source: Kudo (2018), arXiv 1804.10959.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/algorithms/prefix_trie.h"
#include "tokenizer/explanation.h"

namespace vitrine {

/// Scores are summed in the order of the text. Their type is that of the reference, because rounding decides ties.
template <class Score>
class BestPath {
 public:
  struct Piece {
    std::size_t begin, end;  ///< Bytes of the text.
    std::int32_t id;
  };

  /// The pieces of the best path, or of the first of several, in order. They are valid until the next call. `trie` has
  /// the pieces with their ids, `score_of` the score of an id, `length_of` the length of the character at the front of
  /// a text. A character that is not a piece is `unk_id` with `unk_score`. Throws BadInput for it if `unk_id` is kNoId.
  /// `recorder` may be null.
  template <class ScoreOf, class LengthOf>
  const std::vector<Piece>& find(std::string_view text, const PrefixTrie& trie, ScoreOf&& score_of,
                                 LengthOf&& length_of, std::int32_t unk_id, Score unk_score,
                                 EncodingRecorder* recorder) {
    if (recorder != nullptr) recorder->rule(Explanation::Word::Rule::best_sum);
    ends_.assign(text.size() + 1, {});
    for (std::size_t begin = 0; begin < text.size();) {
      const std::string_view rest = text.substr(begin);
      const std::size_t character = length_of(rest);
      const Score score_here = ends_[begin].score;
      const auto offer = [&](std::size_t length, std::int32_t id, Score score) {
        const Score sum = score + score_here;
        if (recorder != nullptr) {
          recorder->candidate({begin, begin + length, id, static_cast<double>(score), static_cast<double>(sum)});
        }
        End& end = ends_[begin + length];
        if (end.begin == kNowhere || sum > end.score) end = {sum, id, static_cast<std::uint32_t>(begin)};
      };
      bool is_known = false;
      trie.each_prefix(rest, [&](std::size_t length, std::int32_t id) {
        offer(length, id, score_of(id));
        is_known |= length == character;
      });
      if (!is_known && unk_id == kNoId) {
        throw BadInput("tokenizer", "\"{}\", which the text contains, is not in the vocabulary, and there is no unk",
                       rest.substr(0, character));
      }
      if (!is_known) offer(character, unk_id, unk_score);
      begin += character;
    }
    pieces_.clear();
    for (std::size_t end = text.size(); end > 0; end = ends_[end].begin) {
      pieces_.push_back({ends_[end].begin, end, ends_[end].id});
      if (recorder != nullptr) recorder->chosen(ends_[end].begin, end);
    }
    std::reverse(pieces_.begin(), pieces_.end());
    return pieces_;
  }

  /// Releases the memory of a long text.
  void release_if_large() {
    if (ends_.capacity() > (1U << 16)) *this = {};
  }

 private:
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  /// The last piece of the best path that ends at a byte of the text.
  struct End {
    Score score = 0;
    std::int32_t id = kNoId;
    std::uint32_t begin = kNowhere;
  };

  std::vector<End> ends_;
  std::vector<Piece> pieces_;
};

}  // namespace vitrine
