#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/best_path.h"
#include "tokenizer/piece_merge.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {
namespace {

/// The unigram model. Sums are in single precision, as in SentencePiece. Source: google/sentencepiece, unigram_model.cc
/// (Model::EncodeOptimized).
class SentencePieceUnigram {
 public:
  explicit SentencePieceUnigram(const SentencePieceModel& model) : scores_(model.pieces.size()), unk_(model.unk) {
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

  /// The pieces of a normalized text. A character that is not a piece has the id of the unknown piece.
  std::vector<BestPath<float>::Piece> encode(std::string_view text, EncodingRecorder* recorder) const {
    const auto score = [&](std::int32_t id) { return scores_[static_cast<std::size_t>(id)]; };
    return BestPath<float>().find(text, trie_, score, sentencepiece_character, unk_, unk_score_, recorder);
  }

 private:
  PrefixTrie trie_;            // the normal and user-defined pieces
  std::vector<float> scores_;  // by id
  std::int32_t unk_;
  float unk_score_ = 0;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(SentencePieceModel model);

  std::string piece(std::int32_t id) const override { return at(id).text; }
  std::string bytes(std::int32_t id) const override;
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  bool keeps_start(std::int32_t id) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(model_.pieces.size()); }
  std::optional<std::int32_t> bos() const override { return model_.bos; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

 private:
  /// One call of encode.
  struct Job {
    EncodingRecorder* recorder;
    std::vector<std::int32_t> ids;
  };
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy,
                                   EncodingRecorder* recorder) const override;
  const VocabularyPiece& at(std::int32_t id) const { return model_.pieces[checked_index(id)]; }
  void encode_part(std::string_view text, SentencePieceNormalizer::Place place, Job& job) const;
  void encode_bpe(std::string_view normal, Job& job) const;
  void encode_unigram(std::string_view normal, Job& job) const;

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  PrefixTrie special_;  // control pieces and the unknown piece
  std::vector<std::int32_t> byte_ids_;
  std::optional<SentencePieceUnigram> unigram_;
  PieceMerger merger_;
  mutable ObjectPool<PieceMerger::Workspace> workspaces_;
  std::vector<std::int32_t> stop_ids_;
};

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model)
    : model_(std::move(model)), normalizer_(model_) {
  if (model_.byte_fallback) byte_ids_.assign(256, kNoId);
  if (model_.kind == SentencePieceModel::Kind::unigram) unigram_.emplace(model_);
  std::vector<PrefixTrie::Key> special;
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    const VocabularyPiece& piece = at(id);
    const bool is_byte = piece.type == PieceType::byte;
    if (piece.is_control()) special.emplace_back(piece.text, id);
    if (is_byte) byte_ids_[byte_of_piece(piece.text).value()] = id;
    if (unigram_) continue;
    if (piece.is_control() || is_byte) {
      merger_.add_reserved(piece.text, id);
    } else {
      merger_.add(piece.text, id, piece.score, piece.type == PieceType::unused);
    }
  }
  special_ = PrefixTrie(std::move(special));
  merger_.set_unknown(model_.unk, byte_ids_);
  if (model_.eos) stop_ids_.push_back(*model_.eos);
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view text, SpecialTokens policy,
                                                         EncodingRecorder* recorder) const {
  Job job = {recorder, {}};
  if (policy == SpecialTokens::none) {
    encode_part(text, {}, job);
    return std::move(job.ids);
  }
  if (model_.bos) add_token(*model_.bos, Explanation::Token::From::policy, job.ids, recorder);
  std::size_t begin = 0;
  special_.each_match(text, [&](std::size_t i, PrefixTrie::Match special) {
    encode_part(text.substr(begin, i - begin), {begin == 0, false}, job);
    add_token(special.value, Explanation::Token::From::text, job.ids, recorder);
    begin = i + special.length;
  });
  encode_part(text.substr(begin), {begin == 0, true}, job);
  return std::move(job.ids);
}

void SentencePieceTokenizer::encode_part(std::string_view text, SentencePieceNormalizer::Place place, Job& job) const {
  const std::string normal = normalizer_.normalize(text, place);
  if (job.recorder != nullptr && !text.empty()) {
    job.recorder->part(text);
    job.recorder->normalized("SentencePiece", text, normal);
  }
  if (normal.empty()) return;
  record_word(job.recorder, normal, job.ids, [&] {
    if (unigram_) {
      encode_unigram(normal, job);
    } else {
      encode_bpe(normal, job);
    }
  });
}

/// As in SentencePiece, adjacent unknown pieces become one unless they are spelled as bytes.
void SentencePieceTokenizer::encode_unigram(std::string_view normal, Job& job) const {
  std::vector<std::int32_t>& ids = job.ids;
  const std::size_t n_before = ids.size();
  for (const auto& piece : unigram_->encode(normal, job.recorder)) {
    if (piece.id == model_.unk && !byte_ids_.empty()) {
      for (const char c : normal.substr(piece.begin, piece.end - piece.begin))
        ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    } else if (piece.id != model_.unk || ids.size() == n_before || ids.back() != model_.unk) {
      ids.push_back(piece.id);
    }
  }
}

/// User-defined pieces are not merged with other symbols, so the texts between them are encoded separately.
void SentencePieceTokenizer::encode_bpe(std::string_view normal, Job& job) const {
  std::vector<std::int32_t>& ids = job.ids;
  const auto workspace = workspaces_.lease();
  workspace->recorder = job.recorder;
  const std::size_t n_before = ids.size();
  std::size_t begin = 0;
  normalizer_.user_defined().each_match(normal, [&](std::size_t i, PrefixTrie::Match match) {
    const std::string_view piece = normal.substr(i, match.length);
    merger_.encode(normal.substr(begin, i - begin), *workspace, ids);
    ids.push_back(merger_.find(piece));
    if (job.recorder != nullptr) {
      job.recorder->begin_symbols();
      job.recorder->symbol(piece);
    }
    begin = i + match.length;
  });
  merger_.encode(normal.substr(begin), *workspace, ids);
  if (!byte_ids_.empty()) return;
  const auto both_unknown = [&](std::int32_t a, std::int32_t b) { return a == model_.unk && b == model_.unk; };
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(n_before);
  ids.erase(std::unique(first, ids.end(), both_unknown), ids.end());
}

std::string SentencePieceTokenizer::bytes(std::int32_t id) const {
  const VocabularyPiece& piece = at(id);
  if (piece.type == PieceType::control) return "";
  if (piece.type == PieceType::unknown) return model_.unk_surface;
  if (piece.type == PieceType::byte) return std::string(1, static_cast<char>(byte_of_piece(piece.text).value()));
  return with_spaces(piece.text);
}

std::string SentencePieceTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  std::string text = bytes(id);
  const bool has_prefix = model_.add_dummy_prefix || model_.remove_extra_whitespaces;
  if (has_prefix && !previous && at(id).type != PieceType::unknown && at(id).text.starts_with(kSpaceSymbol)) {
    text.erase(0, 1);
  }
  return text;
}

/// SentencePiece drops one leading space, or all of them if it removes extra whitespace.
bool SentencePieceTokenizer::keeps_start(std::int32_t id) const {
  const VocabularyPiece& piece = at(id);
  return piece.type == PieceType::control || (model_.remove_extra_whitespaces && piece.text == kSpaceSymbol);
}

}  // namespace

std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(SentencePieceModel model) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model));
}

}  // namespace vitrine
