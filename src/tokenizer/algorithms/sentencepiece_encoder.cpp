#include "tokenizer/algorithms/sentencepiece_encoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/algorithms/best_path.h"

namespace vitrine {

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceModel& model)
    : scores_(model.pieces.size()), unk_(model.unk) {
  float lowest = std::numeric_limits<float>::max();
  std::vector<PrefixTrie::Key> keys;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const VocabularyPiece& piece = model.pieces[id];
    const bool user_defined = piece.type == PieceType::user_defined;
    if (piece.type != PieceType::normal && !user_defined) continue;
    if (!user_defined) lowest = std::min(lowest, piece.score);
    // A user-defined piece scores 0.1 for each byte except the first, while the scores of other pieces are negative.
    // (Versions of the library before 0.2.3 use -0.1 for each such piece and may break ties differently.)
    const double by_length = static_cast<double>(piece.text.size() - 1) * 0.1;
    scores_[id] = user_defined ? static_cast<float>(by_length) : piece.score;
    keys.emplace_back(piece.text, static_cast<std::int32_t>(id));
  }
  unk_score_ = lowest - 10;
  trie_ = PrefixTrie(std::move(keys));
}

void SentencePieceUnigram::encode(std::string_view text, const std::vector<std::int32_t>& byte_ids,
                                  std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const {
  const auto score = [&](std::int32_t id) { return scores_[static_cast<std::size_t>(id)]; };
  BestPath<float> path;
  for (const auto& piece : path.find(text, trie_, score, sentencepiece_character, unk_, unk_score_, recorder)) {
    if (piece.id == unk_ && !byte_ids.empty()) {
      for (const char c : text.substr(piece.begin, piece.end - piece.begin))
        ids.push_back(byte_ids[static_cast<unsigned char>(c)]);
    } else {
      ids.push_back(piece.id);
    }
  }
}

SentencePieceEncoder::SentencePieceEncoder(SentencePieceModel model) : model_(std::move(model)), normalizer_(model_) {
  if (model_.byte_fallback) byte_ids_.assign(256, kNoId);
  if (model_.kind == SentencePieceModel::Kind::unigram) unigram_.emplace(model_);
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    const VocabularyPiece& piece = model_.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    const bool is_byte = piece.type == PieceType::byte;
    if (is_byte) byte_ids_[byte_of_piece(piece.text).value()] = id;
    if (unigram_) continue;
    if (piece.is_control() || is_byte) {
      merger_.add_reserved(piece.text, id);
    } else {
      merger_.add(piece.text, id, piece.score, piece.type == PieceType::unused);
    }
  }
  merger_.set_unknown(model_.unk, byte_ids_);
}

/// As in SentencePiece, adjacent unknown pieces become one unless they are spelled as bytes.
void SentencePieceEncoder::encode(std::string_view text, SentencePieceNormalizer::Place place,
                                  std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const {
  const std::string normal = normalizer_.normalize(text, place);
  if (recorder != nullptr && !text.empty()) {
    recorder->part(text);
    recorder->normalized("SentencePiece", text, normal);
  }
  if (normal.empty()) return;
  record_word(recorder, normal, ids, [&] {
    const auto n_before = static_cast<std::ptrdiff_t>(ids.size());
    encode_normalized(normal, ids, recorder);
    if (!byte_ids_.empty()) return;
    const auto both_unknown = [&](std::int32_t a, std::int32_t b) { return a == model_.unk && b == model_.unk; };
    ids.erase(std::unique(ids.begin() + n_before, ids.end(), both_unknown), ids.end());
  });
}

SentencePieceEncoder::Spelling SentencePieceEncoder::spell(std::string_view text) const {
  Spelling result;
  result.normalized = normalizer_.normalize(text, {});
  std::vector<std::int32_t> ids;
  if (!result.normalized.empty()) encode_normalized(result.normalized, ids, nullptr);
  std::string_view rest = result.normalized;
  bool after_unknown = false;
  for (const std::int32_t id : ids) {
    const VocabularyPiece& piece = model_.pieces[static_cast<std::size_t>(id)];
    const bool is_unknown = piece.type == PieceType::unknown;
    const bool is_one_byte = piece.type == PieceType::byte && !rest.starts_with(piece.text);
    std::size_t length = piece.text.size();
    if (is_one_byte) length = 1;
    if (is_unknown) length = rest.empty() ? 0 : sentencepiece_character(rest);
    const std::string_view surface = rest.substr(0, length);
    if (is_unknown && after_unknown) {
      result.pieces.back() += surface;
    } else {
      result.pieces.emplace_back(is_one_byte ? std::string_view(piece.text) : surface);
    }
    rest.remove_prefix(surface.size());
    after_unknown = is_unknown;
  }
  return result;
}

void SentencePieceEncoder::encode_normalized(std::string_view normal, std::vector<std::int32_t>& ids,
                                             EncodingRecorder* recorder) const {
  if (unigram_) return unigram_->encode(normal, byte_ids_, ids, recorder);
  encode_bpe(normal, ids, recorder);
}

/// User-defined pieces are not merged with other symbols, so the texts between them are encoded separately.
void SentencePieceEncoder::encode_bpe(std::string_view normal, std::vector<std::int32_t>& ids,
                                      EncodingRecorder* recorder) const {
  const auto workspace = workspaces_.lease();
  workspace->recorder = recorder;
  std::size_t begin = 0;
  normalizer_.user_defined().each_match(normal, [&](std::size_t i, PrefixTrie::Match match) {
    const std::string_view piece = normal.substr(i, match.length);
    merger_.encode(normal.substr(begin, i - begin), *workspace, ids);
    ids.push_back(merger_.find(piece));
    if (recorder != nullptr) {
      recorder->begin_symbols();
      recorder->symbol(piece);
    }
    begin = i + match.length;
  });
  merger_.encode(normal.substr(begin), *workspace, ids);
}

}  // namespace vitrine
