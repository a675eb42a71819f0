#include "tokenizer/read/sentencepiece.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/algorithms/sentencepiece_encoder.h"

namespace vitrine {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(SentencePieceModel parsed);

  std::string piece(std::int32_t id) const override { return at(id).text; }
  std::string bytes(std::int32_t id) const override;
  bool is_text(std::int32_t id) const override { return !at(id).is_control() && at(id).type != PieceType::unused; }
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  bool keeps_start(std::int32_t id) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(model().pieces.size()); }
  std::optional<std::int32_t> bos() const override { return model().bos; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

 private:
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                   EncodingRecorder* recorder) const override;
  const SentencePieceModel& model() const { return encoder_.model(); }
  const VocabularyPiece& at(std::int32_t id) const { return model().pieces[checked_index(id)]; }

  SentencePieceEncoder encoder_;
  PrefixTrie special_;  // control pieces and the unknown piece
  std::vector<std::int32_t> stop_ids_;
};

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel parsed) : encoder_(std::move(parsed)) {
  std::vector<PrefixTrie::Key> special;
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    if (at(id).is_control()) special.emplace_back(at(id).text, id);
  }
  special_ = PrefixTrie(std::move(special));
  if (model().eos) stop_ids_.push_back(*model().eos);
  set_fim_tokens(find_fim_tokens(vocab_size(), [this](std::int32_t id) { return std::string_view(at(id).text); }));
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view text, const SpecialRule& rule,
                                                         EncodingRecorder* recorder) const {
  std::vector<std::int32_t> ids;
  if (rule.policy == SpecialTokens::none) {
    encoder_.encode(text, {}, ids, recorder);
    return ids;
  }
  if (model().bos && rule.policy == SpecialTokens::apply)
    add_token(*model().bos, Explanation::Token::From::policy, ids, recorder);
  std::size_t begin = 0;
  special_.each_match(text, [&](std::size_t i, PrefixTrie::Match special) {
    if (!rule.recognizes(text.substr(i, special.length))) return;
    encoder_.encode(text.substr(begin, i - begin), {begin == 0, false}, ids, recorder);
    add_token(special.value, Explanation::Token::From::text, ids, recorder);
    begin = i + special.length;
  });
  encoder_.encode(text.substr(begin), {begin == 0, true}, ids, recorder);
  return ids;
}

std::string SentencePieceTokenizer::bytes(std::int32_t id) const {
  const VocabularyPiece& piece = at(id);
  if (piece.type == PieceType::control) return "";
  if (piece.type == PieceType::unknown) return model().unk_surface;
  if (piece.type == PieceType::byte) return std::string(1, static_cast<char>(byte_of_piece(piece.text).value()));
  return with_spaces(piece.text);
}

std::string SentencePieceTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  std::string text = bytes(id);
  const bool has_prefix = model().add_dummy_prefix || model().remove_extra_whitespaces;
  if (has_prefix && !previous && at(id).type != PieceType::unknown && at(id).text.starts_with(kSpaceSymbol)) {
    text.erase(0, 1);
  }
  return text;
}

/// SentencePiece drops one leading space, or all of them if it removes extra whitespace.
bool SentencePieceTokenizer::keeps_start(std::int32_t id) const {
  const VocabularyPiece& piece = at(id);
  return piece.type == PieceType::control || (model().remove_extra_whitespaces && piece.text == kSpaceSymbol);
}

}  // namespace

std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(SentencePieceModel model) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model));
}

}  // namespace vitrine
