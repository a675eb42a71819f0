#include "tokenizer/algorithms/wordpiece.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

std::int32_t known_unk(std::int32_t unk_id, std::string_view word) {
  if (unk_id >= 0) return unk_id;
  throw BadInput("tokenizer", "neither \"{}\", which the text contains, nor the unk token is in the vocabulary", word);
}

}  // namespace

WordPiece::WordPiece(PieceTable pieces, std::int32_t unk_id, const std::string& continuing_subword_prefix,
                     std::int64_t max_input_chars_per_word)
    : pieces_(std::move(pieces)),
      continuing_prefix_(continuing_subword_prefix),
      unk_id_(unk_id),
      max_characters_(max_input_chars_per_word) {
  std::vector<PrefixTrie::Key> first, continuing;
  for (std::int32_t id = 0; id < pieces_.size(); ++id) {
    const std::string_view piece = pieces_.piece(id);
    if (piece.empty()) continue;
    first.emplace_back(piece, id);
    if (piece.size() > continuing_subword_prefix.size() && piece.starts_with(continuing_subword_prefix)) {
      continuing.emplace_back(piece.substr(continuing_subword_prefix.size()), id);
    }
  }
  first_ = PrefixTrie(std::move(first));
  continuing_ = PrefixTrie(std::move(continuing));
}

void WordPiece::encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const {
  EncodingRecorder* const recorder = workspace.bpe.recorder;
  if (recorder != nullptr) recorder->rule(Explanation::Word::Rule::longest_first);
  const auto n_characters = std::count_if(word.begin(), word.end(), [](char c) { return !is_continuation(c); });
  if (n_characters > max_characters_) return ids.push_back(known_unk(unk_id_, word));
  const std::size_t first_id = ids.size();
  for (std::size_t begin = 0; begin < word.size();) {
    PrefixTrie::Match match;
    (begin == 0 ? first_ : continuing_).each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t id) {
      match = {length, id};
      if (recorder != nullptr) recorder->candidate({begin, begin + length, id});
    });
    if (match.length == 0) {
      ids.resize(first_id);
      return ids.push_back(known_unk(unk_id_, word));
    }
    ids.push_back(match.value);
    if (recorder != nullptr) recorder->chosen(begin, begin + match.length);
    begin += match.length;
  }
}

void WordLevel::encode(std::string_view word, SubwordWorkspace&, std::vector<std::int32_t>& ids) const {
  const std::int32_t id = pieces_.find(word);
  ids.push_back(id != kNoId ? id : known_unk(unk_id_, word));
}

}  // namespace vitrine
