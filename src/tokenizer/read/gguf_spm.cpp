// The "llama" kind of GGUF tokenizer: SentencePiece's pieces, merged by score.
#include <utility>

#include "base/error.h"
#include "tokenizer/algorithms/piece_merge.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/read/gguf_tokenizer.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {
namespace {

class GgufSpmTokenizer final : public GgufTokenizer {
 public:
  GgufSpmTokenizer(GgufVocabulary v, std::string_view path);

  std::string bytes(std::int32_t id) const override;
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  bool keeps_start(std::int32_t id) const override { return at(id).type == PieceType::control; }

 private:
  void encode_text(std::string_view text, bool is_first, EncodingRecorder* recorder,
                   std::vector<std::int32_t>& ids) const override;

  PieceMerger merger_;
  mutable ObjectPool<PieceMerger::Workspace> workspaces_;
};

GgufSpmTokenizer::GgufSpmTokenizer(GgufVocabulary v, std::string_view path) : GgufTokenizer(std::move(v)) {
  std::vector<std::int32_t> byte_ids(256, kNoId);
  std::size_t n_bytes = 0;
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    const GgufVocabulary::Piece& piece = at(id);
    const auto byte = byte_of_piece(piece.text);
    if (piece.type == PieceType::byte && !byte) {
      throw BadCheckpoint(path, "expected <0x00> to <0xFF> for the byte token {}, got another text", id);
    }
    if (byte) {
      byte_ids[*byte] = id;
      ++n_bytes;
    }
    merger_.add(piece.text, id, piece.score);
  }
  if (n_bytes != 0 && n_bytes != 256) throw BadCheckpoint(path, "expected 256 byte tokens or none, got {}", n_bytes);
  if (n_bytes == 0 && !vocabulary().unk)
    throw BadCheckpoint(path, "expected byte tokens or an unknown token, got none");
  if (n_bytes == 0) byte_ids.clear();
  merger_.set_unknown(vocabulary().unk.value_or(kNoId), std::move(byte_ids));
}

void GgufSpmTokenizer::encode_text(std::string_view text, bool is_first, EncodingRecorder* recorder,
                                   std::vector<std::int32_t>& ids) const {
  std::string normal;
  normal.reserve(text.size() + text.size() / 4 + 16);
  const bool has_space = vocabulary().prefix_unless_space && (text.starts_with(' ') || text.starts_with(kSpaceSymbol));
  if (is_first && vocabulary().add_space_prefix && !has_space) normal += kSpaceSymbol;
  append_with_spaces_as(kSpaceSymbol, text, normal);
  const auto workspace = workspaces_.lease();
  workspace->recorder = recorder;
  if (recorder != nullptr) recorder->normalized("spaces", text, normal);
  record_word(recorder, normal, ids, [&] { merger_.encode(normal, *workspace, ids); });
}

std::string GgufSpmTokenizer::bytes(std::int32_t id) const {
  const GgufVocabulary::Piece& piece = at(id);
  if (piece.is_control()) return "";
  if (piece.type == PieceType::user_defined) return piece.text;
  if (piece.type == PieceType::byte) return std::string(1, static_cast<char>(byte_of_piece(piece.text).value()));
  return with_spaces(piece.text);
}

std::string GgufSpmTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  std::string text = bytes(id);
  if (!previous && vocabulary().add_space_prefix && at(id).text.starts_with(kSpaceSymbol) && text.starts_with(' ')) {
    text.erase(0, 1);
  }
  return text;
}

}  // namespace

std::unique_ptr<const Tokenizer> make_gguf_spm_tokenizer(GgufVocabulary vocabulary, std::string_view path) {
  return std::make_unique<GgufSpmTokenizer>(std::move(vocabulary), path);
}

}  // namespace vitrine
