#include "tokenizer/algorithms/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/utf8.h"

namespace vitrine {

Unigram::Unigram(PieceTable pieces, std::vector<double> scores, std::int32_t unk_id, bool byte_fallback)
    : pieces_(std::move(pieces)), scores_(std::move(scores)), unk_id_(unk_id) {
  std::vector<PrefixTrie::Key> keys;
  keys.reserve(scores_.size());
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t id = 0; id < pieces_.size(); ++id) {
    least = std::min(least, scores_[static_cast<std::size_t>(id)]);
    const std::string_view piece = pieces_.piece(id);  // of repeated pieces the last one is used
    if (!piece.empty() && pieces_.find(piece) == id) keys.emplace_back(piece, id);
  }
  unk_score_ = least - 10;
  trie_ = PrefixTrie(std::move(keys));
  if (!byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte) byte_ids_.push_back(pieces_.find(fmt::format("<0x{:02X}>", byte)));
}

void Unigram::append_unknown(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::int32_t whole = pieces_.find(text);
  if (whole != kNoId) return ids.push_back(whole);
  const auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (byte_ids_.empty() || std::any_of(text.begin(), text.end(), [&](char b) { return id(b) == kNoId; })) {
    return ids.push_back(unk_id_);
  }
  for (char byte : text) ids.push_back(id(byte));
}

void Unigram::encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  EncodingRecorder* const recorder = workspace.bpe.recorder;
  const bool cached = word.size() <= WordCache::kMaxWordBytes && recorder == nullptr;
  if (cached && workspace.bpe.cache.find(word, ids)) return;
  const std::size_t first_id = ids.size();
  const auto score = [&](std::int32_t id) { return scores_[static_cast<std::size_t>(id)]; };
  const auto length = [](std::string_view text) { return length_by_lead(text[0]); };
  std::size_t unknown = word.size();  // the beginning of a run of unknown characters
  for (const auto& piece : workspace.best_path.find(word, trie_, score, length, unk_id_, unk_score_, recorder)) {
    if (piece.id == unk_id_) {
      unknown = std::min(unknown, piece.begin);
      continue;
    }
    if (unknown < piece.begin) append_unknown(word.substr(unknown, piece.begin - unknown), ids);
    unknown = word.size();
    ids.push_back(piece.id);
  }
  if (unknown < word.size()) append_unknown(word.substr(unknown), ids);
  if (cached) workspace.bpe.cache.keep(word, std::span(ids).subspan(first_id));
  workspace.best_path.release_if_large();
}

}  // namespace vitrine
