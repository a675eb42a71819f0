#include "tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
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

/// Sets nodes[i] to the end of the best path over word[0, i).
void Unigram::find_best(std::string_view word, SubwordWorkspace& workspace) const {
  std::vector<SubwordWorkspace::Node>& nodes = workspace.nodes;
  EncodingRecorder* const recorder = workspace.bpe.recorder;
  if (recorder != nullptr) recorder->rule(Explanation::Word::Rule::best_sum);
  nodes.assign(word.size() + 1, {0, kNoId, -1});
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t character = length_by_lead(word[begin]);
    const double score_here = nodes[begin].score;
    const auto offer = [&](std::size_t length, std::int32_t id, double score) {
      SubwordWorkspace::Node& node = nodes[begin + length];
      if (recorder != nullptr) recorder->candidate({begin, begin + length, id, score, score + score_here});
      if (node.begin < 0 || score + score_here > node.score) {
        node = {score + score_here, id, static_cast<std::int32_t>(begin)};
      }
    };
    bool is_known = false;
    trie_.each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t id) {
      offer(length, id, scores_[static_cast<std::size_t>(id)]);
      is_known |= length == character;
    });
    if (!is_known) {
      if (unk_id_ == kNoId) {
        throw BadInput("tokenizer", "\"{}\", which the text contains, is not in the vocabulary, and there is no unk",
                       word.substr(begin, character));
      }
      offer(character, unk_id_, unk_score_);
    }
    begin += character;
  }
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
  find_best(word, workspace);

  std::vector<std::int32_t>& ends = workspace.ids;  // of the pieces, the last one first
  ends.clear();
  for (auto end = static_cast<std::int32_t>(word.size()); end > 0;
       end = workspace.nodes[static_cast<std::size_t>(end)].begin) {
    ends.push_back(end);
  }
  std::size_t unknown = word.size();  // the beginning of a run of unknown characters
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const SubwordWorkspace::Node& node = workspace.nodes[static_cast<std::size_t>(*end)];
    const auto begin = static_cast<std::size_t>(node.begin);
    if (recorder != nullptr) recorder->chosen(begin, static_cast<std::size_t>(*end));
    if (node.id == unk_id_) {
      unknown = std::min(unknown, begin);
      continue;
    }
    if (unknown < begin) append_unknown(word.substr(unknown, begin - unknown), ids);
    unknown = word.size();
    ids.push_back(node.id);
  }
  if (unknown < word.size()) append_unknown(word.substr(unknown), ids);
  if (cached) workspace.bpe.cache.keep(word, std::span(ids).subspan(first_id));
  if (workspace.nodes.capacity() > (1U << 16)) workspace.nodes = {};
  if (workspace.ids.capacity() > (1U << 18)) workspace.ids = {};
}

}  // namespace vitrine
