#include "tokenizer/read/gguf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tokenizer/algorithms/bpe.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/read/gguf_document.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/read/tokenizer_json.h"

namespace vitrine {
namespace {

// Pieces that llama.cpp treats as control tokens whatever their type in the file, and that end a text.
constexpr std::string_view kEndPieces[] = {
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",
    "<end_of_turn>", "<|endoftext|>",   "<|eom_id|>",
    "<EOT>",         "_<EOT>",          "<|fim_pad|>",
    "<fim-pad>",     "<PAD>",           "<|fim_repo|>",
    "<fim-repo>",    "<REPO>",          "<|file_sep|>",
    "<|repo_name|>", "<|end_of_text|>", "<end_of_utterance>",
    "<fim_pad>",     "<reponame>",      "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};

/// Throws unless the array has one element for each token. Called before the array is decoded.
void check_count(const GgufMetadata& metadata, std::string_view key, std::uint64_t n_tokens) {
  const GgufValue* value = metadata.find(key);
  if (value != nullptr && value->count != n_tokens) {
    throw BadCheckpoint(metadata.path(), "expected {} elements in {}, got {}; --tokenizer gives another tokenizer",
                        n_tokens, key, value->count);
  }
}

/// The tokens that the keys name (each has an older name, which counts if the file has both), else those that are
/// spelled like them, which are control tokens.
void find_fim(const GgufMetadata& metadata, const PieceTable& ids, GgufVocabulary& v) {
  v.fim = find_fim_tokens([&](std::string_view text) { return ids.find(text); });
  for (const std::int32_t id : v.fim.all()) v.pieces[static_cast<std::size_t>(id)].type = PieceType::control;
  const std::pair<const char*, std::optional<std::int32_t> FimTokens::*> keys[] = {
      {"fim_pre", &FimTokens::prefix}, {"fim_suf", &FimTokens::suffix},     {"fim_mid", &FimTokens::middle},
      {"fim_pad", &FimTokens::pad},    {"fim_rep", &FimTokens::repository}, {"fim_sep", &FimTokens::file},
      {"prefix", &FimTokens::prefix},  {"suffix", &FimTokens::suffix},      {"middle", &FimTokens::middle}};
  for (const auto& [name, place] : keys) {
    const auto id = gguf_special_id(metadata, fmt::format("tokenizer.ggml.{}_token_id", name), v.pieces.size());
    if (id) v.fim.*place = id;
  }
}

/// Sets the stop ids, those of the file and of kEndPieces, and makes the pieces of the list control tokens.
void find_stop_ids(const GgufMetadata& metadata, const PieceTable& ids, GgufVocabulary& v) {
  if (v.eos) v.stop_ids.push_back(*v.eos);
  for (const std::size_t id : own_gguf_ids(metadata, kGgufStopIds, v.pieces.size())) {
    v.stop_ids.push_back(static_cast<std::int32_t>(id));
  }
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = gguf_special_id(metadata, key, v.pieces.size())) v.stop_ids.push_back(*id);
  }
  const auto make_control = [&](std::string_view text) -> std::optional<std::int32_t> {
    const std::int32_t id = ids.find(text);
    if (id == kNoId) return std::nullopt;
    v.pieces[static_cast<std::size_t>(id)].type = PieceType::control;
    return id;
  };
  for (const std::string_view text : kEndPieces) {
    if (const auto id = make_control(text)) v.stop_ids.push_back(*id);
  }
  for (const auto& id : {v.fim.pad, v.fim.repository, v.fim.file}) {
    if (id) v.stop_ids.push_back(*id);
  }
  std::sort(v.stop_ids.begin(), v.stop_ids.end());
  v.stop_ids.erase(std::unique(v.stop_ids.begin(), v.stop_ids.end()), v.stop_ids.end());
}

void read_own_keys(const GgufMetadata& metadata, GgufVocabulary& v) {
  for (const std::size_t id : own_gguf_ids(metadata, kGgufStripLeft, v.pieces.size())) v.pieces[id].strip_left = true;
  for (const std::size_t id : own_gguf_ids(metadata, kGgufStripRight, v.pieces.size())) v.pieces[id].strip_right = true;
  const std::string_view scheme = metadata.string(kGgufPrependScheme).value_or("");
  if (!scheme.empty() && scheme != "first" && scheme != "always") {
    throw BadCheckpoint(metadata.path(), "{}: expected first or always, got {}", kGgufPrependScheme, scheme);
  }
  v.prefix_unless_space = !scheme.empty();
  v.prefix_once = scheme == "first";
}

/// Sets strip_left and strip_right, which are not in the file, by the pre-tokenizer or the model's name, as llama.cpp
/// does.
void set_strips(const GgufMetadata& metadata, const PieceTable& ids, GgufVocabulary& v) {
  if (v.pre == "jina-v2-de" || v.pre == "jina-v2-es" || v.pre == "jina-v2-code") {
    const std::int32_t mask = ids.find("<mask>");
    if (mask != kNoId) v.pieces[static_cast<std::size_t>(mask)].strip_left = true;
    return;
  }
  std::string name(metadata.string("general.name").value_or(""));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.find("phi-3") == name.npos && name.find("phi3") == name.npos) return;
  for (GgufVocabulary::Piece& piece : v.pieces) {
    const bool is_special = piece.is_control() || piece.type == PieceType::user_defined || piece.text == "</s>";
    piece.strip_right = is_special && piece.text != "<unk>" && piece.text != "<s>" && piece.text != "<|endoftext|>";
  }
}

GgufVocabulary read_vocabulary(const GgufMetadata& metadata, bool is_spm) {
  GgufVocabulary v;
  v.pieces = read_gguf_pieces(metadata);
  PieceTable ids;
  for (std::size_t i = 0; i < v.pieces.size(); ++i) {
    const std::string& text = v.pieces[i].text;
    if (ids.add(text, static_cast<std::int32_t>(i))) continue;
    throw BadCheckpoint(metadata.path(), "tokens {} and {} have the same text; --tokenizer gives another tokenizer",
                        ids.find(text), i);
  }
  const auto standard = [&](std::int32_t id) -> std::optional<std::int32_t> {
    if (!is_spm || static_cast<std::size_t>(id) >= v.pieces.size()) return std::nullopt;
    return id;
  };
  const auto id = [&](const char* key, std::int32_t usual) {
    const auto given = gguf_special_id(metadata, key, v.pieces.size());
    return given ? given : standard(usual);
  };
  v.bos = id("tokenizer.ggml.bos_token_id", 1);
  v.eos = id("tokenizer.ggml.eos_token_id", 2);
  v.unk = id("tokenizer.ggml.unknown_token_id", 0);
  v.sep = gguf_special_id(metadata, kGgufSeparator, v.pieces.size());
  v.pre = metadata.string("tokenizer.ggml.pre").value_or("");
  find_fim(metadata, ids, v);
  find_stop_ids(metadata, ids, v);
  set_strips(metadata, ids, v);
  read_own_keys(metadata, v);
  return v;
}

/// The id at `key`, also if it is not in any vocabulary; none if the key is absent.
std::optional<std::int64_t> any_id(const GgufMetadata& metadata, std::string_view key) {
  const GgufValue* const value = metadata.find(key);
  const bool is_huge = value != nullptr && value->type == GgufType::u64 && value->bytes.back() >= std::byte{0x80};
  return is_huge ? std::numeric_limits<std::int64_t>::max() : metadata.integer(key);
}

}  // namespace

std::vector<GgufVocabulary::Piece> read_gguf_pieces(const GgufMetadata& metadata) {
  const GgufValue* list = metadata.find("tokenizer.ggml.tokens");
  if (list == nullptr) throw BadCheckpoint(metadata.path(), "expected tokenizer.ggml.tokens, got none");
  if (list->count == 0 || list->count > kMaxPieces) {
    throw BadCheckpoint(metadata.path(), "expected 1 to {} tokens, got {}", kMaxPieces, list->count);
  }
  check_count(metadata, "tokenizer.ggml.scores", list->count);
  check_count(metadata, "tokenizer.ggml.token_type", list->count);
  const auto texts = metadata.strings("tokenizer.ggml.tokens").value();
  const auto scores = metadata.floats("tokenizer.ggml.scores");
  const auto types = metadata.integers("tokenizer.ggml.token_type");

  std::vector<GgufVocabulary::Piece> pieces(texts.size());
  if (list->bytes.size() > kMaxVocabularyBytes + 8 * texts.size()) {
    throw BadCheckpoint(metadata.path(), "expected at most {} bytes of tokens, got {}", kMaxVocabularyBytes,
                        list->bytes.size() - 8 * texts.size());
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    pieces[i].text = texts[i].empty() ? fmt::format("[EMPTY_{}]", i) : std::string(texts[i]);
    if (texts[i].size() > kMaxPieceBytes) {
      throw BadCheckpoint(metadata.path(), "expected at most {} bytes for token {}, got {}", kMaxPieceBytes, i,
                          texts[i].size());
    }
    if (scores) pieces[i].score = (*scores)[i];
    if (std::isnan(pieces[i].score)) throw BadCheckpoint(metadata.path(), "expected a score for token {}, got nan", i);
    if (!types) continue;
    if ((*types)[i] < 1 || (*types)[i] > 6) {
      throw BadCheckpoint(metadata.path(), "expected a type from 1 to 6 for token {}, got {}", i, (*types)[i]);
    }
    pieces[i].type = static_cast<PieceType>((*types)[i]);
  }
  return pieces;
}

std::vector<std::size_t> own_gguf_ids(const GgufMetadata& metadata, const char* key, std::size_t n_tokens) {
  std::vector<std::size_t> ids;
  for (const std::int64_t id : metadata.integers(key).value_or(std::vector<std::int64_t>())) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= n_tokens) {
      throw BadCheckpoint(metadata.path(), "expected ids from 0 to {} in {}, got {}", n_tokens - 1, key, id);
    }
    ids.push_back(static_cast<std::size_t>(id));
  }
  return ids;
}

std::optional<std::int32_t> gguf_special_id(const GgufMetadata& metadata, std::string_view key, std::size_t n_tokens) {
  const auto id = any_id(metadata, key);
  if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= n_tokens) return std::nullopt;
  return static_cast<std::int32_t>(*id);
}

std::vector<std::string> gguf_ignored_ids(const GgufMetadata& metadata, std::size_t n_tokens) {
  std::vector<std::string> notes;
  for (const auto& [key, value] : metadata.values()) {
    if (!key.starts_with("tokenizer.ggml.") || !key.ends_with("_token_id")) continue;
    if (gguf_special_id(metadata, key, n_tokens)) continue;
    notes.push_back(fmt::format("{} is ignored: {} is not an id of the vocabulary of {} tokens", key,
                                any_id(metadata, key).value(), n_tokens));
  }
  return notes;
}

std::unique_ptr<const Tokenizer> make_gguf_tokenizer(const GgufMetadata& metadata) {
  const auto kind = metadata.string("tokenizer.ggml.model");
  if (!kind || *kind == "no_vocab" || *kind == "none") {
    throw BadInput(metadata.path(), "the GGUF file contains no tokenizer; give --tokenizer or --ids");
  }
  if (*kind == "bert" || *kind == "t5") return make_json_tokenizer(gguf_document(metadata), metadata.path());
  const bool is_spm = *kind == "llama", is_character_bpe = *kind == "gemma4";
  if (!is_spm && !is_character_bpe && *kind != "gpt2") {
    throw Unsupported(metadata.path(), "the tokenizer kind \"{}\" of a GGUF file is not supported; give --tokenizer",
                      *kind);
  }
  GgufVocabulary v = read_vocabulary(metadata, is_spm);
  const PreTokenizerRule* rule = is_spm || is_character_bpe ? nullptr : &gguf_pre_tokenizer(v.pre, metadata.path());
  v.add_bos = metadata.boolean("tokenizer.ggml.add_bos_token").value_or(rule == nullptr || rule->add_bos);
  if (is_character_bpe) v.add_bos = true;  // as llama.cpp does, whatever the file says
  v.add_eos = metadata.boolean("tokenizer.ggml.add_eos_token").value_or(false);
  const bool separates = v.pre == "jina-v1-en" || v.pre == "jina-v2-code" || v.pre == "roberta-bpe";
  v.add_sep = metadata.boolean("tokenizer.ggml.add_sep_token").value_or(separates);
  v.add_space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(is_spm);
  const auto check_added = [&](bool& adds, std::optional<std::int32_t> id, const char* key) {
    if (!adds || id) return;
    if (metadata.find(key) == nullptr) {
      throw BadCheckpoint(metadata.path(),
                          "expected {}, the id of a token that is added to texts, got none; --tokenizer gives another "
                          "tokenizer",
                          key);
    }
    adds = false;  // it is not in the vocabulary
  };
  check_added(v.add_bos, v.bos, "tokenizer.ggml.bos_token_id");
  check_added(v.add_eos, v.eos, "tokenizer.ggml.eos_token_id");
  if (is_spm) return make_gguf_spm_tokenizer(std::move(v), metadata.path());
  const GgufValue* merges = metadata.find("tokenizer.ggml.merges");
  if (merges == nullptr) throw BadCheckpoint(metadata.path(), "expected tokenizer.ggml.merges, got none");
  if (merges->count > MergeTable::kMaxMerges) {
    throw BadCheckpoint(metadata.path(), "expected at most {} merges, got {}", MergeTable::kMaxMerges, merges->count);
  }
  const auto make = is_character_bpe ? make_gguf_character_bpe_tokenizer : make_gguf_bpe_tokenizer;
  return make(std::move(v), metadata.strings("tokenizer.ggml.merges").value(), metadata.path());
}

}  // namespace vitrine
