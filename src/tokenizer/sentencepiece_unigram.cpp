#include "tokenizer/sentencepiece_unigram.h"

#include <algorithm>
#include <limits>

#include "tokenizer/piece_merge.h"

namespace vitrine {

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceModel& model)
    : rules_(model.pieces.size()), unk_(model.unk) {
  float lowest = std::numeric_limits<float>::max();
  std::vector<PrefixTrie::Key> keys;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const VocabularyPiece& piece = model.pieces[id];
    if (piece.type == PieceType::normal) lowest = std::min(lowest, piece.score);
    if (piece.type != PieceType::normal && piece.type != PieceType::user_defined) continue;
    rules_[id] = {piece.score, piece.type == PieceType::user_defined};
    keys.emplace_back(piece.text, static_cast<std::int32_t>(id));
  }
  unk_score_ = lowest - 10;
  trie_ = PrefixTrie(std::move(keys));
}

/// A user-defined piece scores 0.1 for each byte except the first, while the scores of other pieces are negative.
/// (Versions of the library before 0.2.3 use -0.1 for each user-defined piece and may break ties differently.)
float SentencePieceUnigram::score(std::int32_t id, std::size_t length) const {
  const Rule& rule = rules_[static_cast<std::size_t>(id)];
  if (!rule.user_defined) return rule.score;
  return static_cast<float>(static_cast<double>(length - 1) * 0.1);
}

std::vector<SentencePieceUnigram::Piece> SentencePieceUnigram::encode(std::string_view text,
                                                                      EncodingRecorder* recorder) const {
  constexpr std::size_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  struct End {  // the last piece of the best path that ends here
    float score = 0;
    std::int32_t id = kNoId;
    std::uint32_t begin = kNowhere;
  };
  std::vector<End> ends(text.size() + 1);
  const auto improve = [&](std::size_t end, float path_score, std::size_t begin, std::int32_t id) {
    if (recorder != nullptr) {
      const auto score_here = static_cast<double>(id == unk_ ? unk_score_ : score(id, end - begin));
      recorder->candidate({begin, end, id, score_here, static_cast<double>(path_score)});
    }
    if (ends[end].begin != kNowhere && path_score <= ends[end].score) return;
    ends[end] = {path_score, id, static_cast<std::uint32_t>(begin)};
  };
  if (recorder != nullptr) recorder->rule(Explanation::Word::Rule::best_sum);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t character = sentencepiece_character(text.substr(begin));
    const float here = ends[begin].score;
    bool has_character = false;
    trie_.each_prefix(text.substr(begin), [&](std::size_t length, std::int32_t id) {
      improve(begin + length, score(id, length) + here, begin, id);
      has_character = has_character || length == character;
    });
    if (!has_character) improve(begin + character, unk_score_ + here, begin, unk_);
    begin += character;
  }
  std::vector<Piece> pieces;
  for (std::size_t end = text.size(); end > 0; end = ends[end].begin) {
    if (recorder != nullptr) recorder->chosen(ends[end].begin, end);
    pieces.push_back({ends[end].begin, end - ends[end].begin, ends[end].id});
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace vitrine
