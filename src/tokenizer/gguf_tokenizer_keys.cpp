#include "tokenizer/gguf_tokenizer_keys.h"

#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/gguf_bpe_keys.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/sentencepiece_model.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// All tokenizer keys of another GGUF file, unchanged.
GgufKeys copied_keys(const MappedFile& file, std::int64_t vocab_size) {
  const GgufMetadata metadata = GgufMetadata::parse(file.bytes(), file.path());
  make_gguf_tokenizer(metadata);  // refuses what vitrine cannot read
  const GgufValue* tokens = metadata.find("tokenizer.ggml.tokens");
  if (tokens->count != static_cast<std::uint64_t>(vocab_size)) {
    throw Unsupported(file.path(), "expected {} tokens, one for each row of the embedding, got {}", vocab_size,
                      tokens->count);
  }
  GgufKeys keys;
  for (const auto& [key, value] : metadata.values()) {
    if (!key.starts_with("tokenizer.")) continue;
    if (value.type == GgufType::array && value.element == GgufType::array) {
      throw Unsupported(file.path(), "{}: nested arrays cannot be copied", key);
    }
    keys.add(key, value);
  }
  return keys;
}

void check_sentencepiece(const SentencePieceModel& model, const std::string& path) {
  const char* what = model.kind != SentencePieceModel::Kind::bpe ? "a unigram model"
                     : model.whitespace_as_suffix                ? "whitespace as a suffix"
                     : !model.escape_whitespaces                 ? "whitespace that is not escaped"
                     : model.remove_extra_whitespaces            ? "removed whitespace"
                     : !model.charsmap.empty()                   ? "a normalizer"
                                                                 : nullptr;
  if (what != nullptr) throw Unsupported(path, "a tokenizer with {} cannot be written to GGUF", what);
}

GgufKeys sentencepiece_keys(const MappedFile& file, std::int64_t vocab_size) {
  const SentencePieceModel model = parse_sentencepiece_model(file.bytes(), file.path());
  check_sentencepiece(model, file.path());
  GgufTokenList list;
  for (const VocabularyPiece& piece : model.pieces) list.add(piece.text, piece.score, piece.type);
  list.pad(vocab_size, file.path());
  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "llama");
  keys.add("tokenizer.ggml.pre", "default");
  list.add_to(keys, true);
  if (model.bos) keys.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*model.bos));
  if (model.eos) keys.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(*model.eos));
  keys.add("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(model.unk));
  keys.add("tokenizer.ggml.add_bos_token", model.bos.has_value());
  keys.add("tokenizer.ggml.add_eos_token", false);
  keys.add("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  return keys;
}

/// The file of the tokenizer, if `path` is a folder.
std::string file_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, error)) return file.string();
  }
  throw BadInput(path, "expected tokenizer.model or tokenizer.json in the folder to write to the GGUF file");
}

}  // namespace

GgufKeys gguf_tokenizer_keys(const std::string& path, const GgufTokenizerNeeds& needs) {
  const std::string file_path = file_of(path);
  const auto file = MappedFile::open(file_path);
  const std::string_view text = file->text();
  if (text.starts_with("GGUF")) return copied_keys(*file, needs.vocab_size);
  if (text.starts_with('\n')) return sentencepiece_keys(*file, needs.vocab_size);
  if (text.starts_with('{')) return gguf_bpe_keys(text, file_path, needs);
  throw Unsupported(file_path, "a tokenizer of this format cannot be written to a GGUF file");
}

GgufKeys no_gguf_tokenizer() {
  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "no_vocab");
  return keys;
}

}  // namespace vitrine
