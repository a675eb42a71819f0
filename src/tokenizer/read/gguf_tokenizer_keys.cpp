#include "tokenizer/read/gguf_tokenizer_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/read/sentencepiece_model.h"
#include "tokenizer/read/tokenizer_document.h"
#include "tokenizer/read/tokenizer_json.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view path, std::string_view what) {
  throw Unsupported(path, "a tokenizer with {} cannot be written to GGUF", what);
}

VocabularyPiece padding(std::size_t id, float score) { return {fmt::format("[PAD{}]", id), score, PieceType::unused}; }

/// Adds the lists of tokens, padded to `vocab_size`. Throws BadCheckpoint if there are more tokens.
void add_tokens(std::vector<VocabularyPiece> tokens, bool with_scores, std::int64_t vocab_size, std::string_view path,
                GgufKeys& keys) {
  if (static_cast<std::int64_t>(tokens.size()) > vocab_size) {
    throw BadCheckpoint(path, "expected at most {} tokens, the size of the model's vocabulary, got {}", vocab_size,
                        tokens.size());
  }
  while (static_cast<std::int64_t>(tokens.size()) < vocab_size) tokens.push_back(padding(tokens.size(), -1000.0F));
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (VocabularyPiece& token : tokens) {
    texts.push_back(std::move(token.text));
    scores.push_back(token.score);
    types.push_back(static_cast<std::int32_t>(token.type));
  }
  keys.add("tokenizer.ggml.tokens", texts);
  if (with_scores) keys.add("tokenizer.ggml.scores", scores);
  keys.add("tokenizer.ggml.token_type", types);
}

void add_id(GgufKeys& keys, const char* key, std::optional<std::int32_t> id) {
  if (id) keys.add(key, static_cast<std::uint32_t>(*id));
}

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

GgufKeys sentencepiece_keys(const MappedFile& file, std::int64_t vocab_size) {
  const SentencePieceModel model = parse_sentencepiece_model(file.bytes(), file.path());
  if (model.kind != SentencePieceModel::Kind::bpe) refuse(file.path(), "a unigram model");
  if (model.whitespace_as_suffix) refuse(file.path(), "whitespace as a suffix");
  if (!model.escape_whitespaces) refuse(file.path(), "whitespace that is not escaped");
  if (model.remove_extra_whitespaces) refuse(file.path(), "removed whitespace");
  if (!model.charsmap.empty()) refuse(file.path(), "a normalizer");
  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "llama");
  keys.add("tokenizer.ggml.pre", "default");
  add_tokens(model.pieces, true, vocab_size, file.path(), keys);
  add_id(keys, "tokenizer.ggml.bos_token_id", model.bos);
  add_id(keys, "tokenizer.ggml.eos_token_id", model.eos);
  add_id(keys, "tokenizer.ggml.unknown_token_id", model.unk);
  keys.add("tokenizer.ggml.add_bos_token", model.bos.has_value());
  keys.add("tokenizer.ggml.add_eos_token", false);
  keys.add("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  return keys;
}

// Byte-level BPE of a tokenizer.json, which parse_tokenizer_json has accepted.

std::string type_of(const Json& object) { return object.is_object() ? object.value("type", "") : ""; }

bool is_true(const Json& object, const char* key) { return object.value(key, Json(false)) == true; }

/// Appends the regexes of the pre-tokenizers, in order.
void add_patterns(const Json& stage, std::string_view path, std::vector<std::string>& patterns) {
  const std::string type = type_of(stage);
  if (type == "Sequence") {
    for (const Json& inner : stage.at("pretokenizers")) add_patterns(inner, path, patterns);
  } else if (type == "Split") {
    const Json& pattern = stage.at("pattern");
    const bool plain =
        pattern.contains("Regex") && stage.value("behavior", "") == "Isolated" && !is_true(stage, "invert");
    if (!plain) refuse(path, "a Split other than an isolated regex");
    patterns.push_back(pattern.at("Regex").get<std::string>());
  } else if (type == "ByteLevel") {
    if (is_true(stage, "add_prefix_space")) refuse(path, "add_prefix_space");
    if (stage.value("use_regex", true)) patterns.emplace_back(gguf_pre_tokenizer("gpt-2", path).patterns.front());
  } else {
    refuse(path, "the pre-tokenizer " + type);
  }
}

bool ends_in_byte_level(const Json& stage) {
  if (type_of(stage) != "Sequence") return type_of(stage) == "ByteLevel";
  const Json& stages = stage.at("pretokenizers");
  return !stages.empty() && ends_in_byte_level(stages.back());
}

void check_model(const Json& rest, std::string_view path) {
  const Json& model = rest.at("model");
  if (type_of(model) != "BPE") refuse(path, "the model " + type_of(model));
  if (is_true(model, "byte_fallback")) refuse(path, "byte fallback in a tokenizer.json (try its tokenizer.model)");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.contains(key) && model[key].is_string() && model[key] != "") refuse(path, key);
  }
  const std::string normalizer = type_of(rest.value("normalizer", Json()));
  if (!normalizer.empty() && normalizer != "NFC") refuse(path, "the normalizer " + normalizer);
  if (!ends_in_byte_level(rest.value("pre_tokenizer", Json()))) refuse(path, "pieces that are not byte-level");
}

/// The vocabulary by id, overridden by the added tokens.
std::vector<VocabularyPiece> tokens_of(const TokenizerDocument& document, std::string_view path) {
  std::map<std::int32_t, VocabularyPiece> added;
  for (const Json& token : document.rest.value("added_tokens", Json::array())) {
    if (is_true(token, "lstrip") || is_true(token, "rstrip") || is_true(token, "single_word")) {
      refuse(path, "added tokens that set lstrip, rstrip or single_word");
    }
    const PieceType type = is_true(token, "special") ? PieceType::control : PieceType::user_defined;
    added[token.at("id").get<std::int32_t>()] = {token.at("content").get<std::string>(), 0, type};
  }
  const std::int32_t last = added.empty() ? -1 : added.rbegin()->first;
  const std::int32_t n = std::max(document.pieces.size(), last + 1);
  std::vector<VocabularyPiece> tokens;
  for (std::int32_t id = 0; id < n; ++id) {
    const auto it = added.find(id);
    if (it != added.end()) {
      tokens.push_back(it->second);
    } else if (document.pieces.contains(id)) {
      tokens.push_back({std::string(document.pieces.piece(id)), 0, PieceType::normal});
    } else {
      tokens.push_back(padding(tokens.size(), 0));
    }
  }
  return tokens;
}

/// BOS and EOS: those that the tokenizer adds, otherwise those of the checkpoint.
void add_special_ids(const Tokenizer& tokenizer, std::string_view path, const GgufTokenizerNeeds& needs,
                     GgufKeys& keys) {
  const std::vector<std::int32_t> added = tokenizer.encode("", SpecialTokens::apply);
  if (added.size() > 1) refuse(path, "a template that adds more than BOS");
  const std::vector<std::int32_t>& stops = needs.stop_ids.empty() ? tokenizer.stop_ids() : needs.stop_ids;
  std::optional<std::int32_t> bos = tokenizer.bos() ? tokenizer.bos() : needs.bos;
  if (!added.empty()) bos = added.front();
  add_id(keys, "tokenizer.ggml.bos_token_id", bos);
  if (!stops.empty()) add_id(keys, "tokenizer.ggml.eos_token_id", stops.front());
  if (stops.size() > 1) add_id(keys, "tokenizer.ggml.eot_token_id", stops[1]);
  keys.add("tokenizer.ggml.add_bos_token", !added.empty());
  keys.add("tokenizer.ggml.add_eos_token", false);
}

GgufKeys byte_level_keys(std::string_view text, std::string_view path, const GgufTokenizerNeeds& needs) {
  const auto tokenizer = parse_tokenizer_json(text, path);  // refuses what vitrine cannot read
  const TokenizerDocument document = parse_tokenizer_document(text, path);
  check_model(document.rest, path);
  std::vector<std::string> patterns;
  add_patterns(document.rest.at("pre_tokenizer"), path, patterns);
  const bool ignore_merges = is_true(document.rest.at("model"), "ignore_merges");
  const std::string_view pre = gguf_pre_name(patterns, ignore_merges);
  if (pre.empty()) refuse(path, "a pre-tokenizer that has no name in GGUF");

  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "gpt2");
  keys.add("tokenizer.ggml.pre", pre);
  add_tokens(tokens_of(document, path), false, needs.vocab_size, path, keys);
  std::vector<std::string> merges;
  document.merges.for_each([&](const MergeList::Pair& pair) {
    merges.push_back(pair.right.empty() ? std::string(pair.left) : fmt::format("{} {}", pair.left, pair.right));
  });
  keys.add("tokenizer.ggml.merges", merges);
  add_special_ids(*tokenizer, path, needs, keys);
  return keys;
}

/// The file of the tokenizer: `path`, or a file in that folder.
std::string file_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, error)) return file.string();
  }
  throw BadInput(path, "expected tokenizer.model or tokenizer.json in the folder, got neither");
}

GgufKeys keys_of_file(const std::string& file_path, const GgufTokenizerNeeds& needs) {
  const auto file = MappedFile::open(file_path);
  const std::string_view text = file->text();
  if (text.starts_with("GGUF")) return copied_keys(*file, needs.vocab_size);
  if (text.starts_with('\n')) return sentencepiece_keys(*file, needs.vocab_size);
  if (text.starts_with('{')) return byte_level_keys(text, file_path, needs);
  throw Unsupported(file_path, "a tokenizer of this format cannot be written to a GGUF file");
}

}  // namespace

GgufKeys gguf_tokenizer_keys(const std::string& path, const GgufTokenizerNeeds& needs) {
  GgufKeys keys = keys_of_file(file_of(path), needs);
  std::error_code error;
  if (fs::is_directory(path, error)) keys.add(gguf_chat_template_keys(load_chat_templates(path)));
  return keys;
}

GgufKeys no_gguf_tokenizer(const std::string& path) {
  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "no_vocab");
  if (!path.empty()) keys.add(gguf_chat_template_keys(open_chat_templates(path, "")));
  return keys;
}

}  // namespace vitrine
