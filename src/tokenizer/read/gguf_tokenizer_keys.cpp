#include "tokenizer/read/gguf_tokenizer_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/read/gguf_document.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/read/gguf_token_list.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/read/sentencepiece_model.h"
#include "tokenizer/read/tokenizer_document.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/sentencepiece_normalizer.h"

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
    if (!key.starts_with("tokenizer.") || key == kGgufTypeCount) continue;  // that is the model's
    if (value.type == GgufType::array && value.element == GgufType::array) {
      throw Unsupported(file.path(), "{}: nested arrays cannot be copied", key);
    }
    keys.add(key, value);
  }
  return keys;
}

GgufKeys sentencepiece_keys(const MappedFile& file, std::int64_t vocab_size) {
  const SentencePieceModel model = parse_sentencepiece_model(file.bytes(), file.path());
  if (model.kind != SentencePieceModel::Kind::bpe) refuse_tokenizer(file.path(), "a unigram model");
  if (model.whitespace_as_suffix) refuse_tokenizer(file.path(), "whitespace as a suffix");
  if (!model.escape_whitespaces) refuse_tokenizer(file.path(), "whitespace that is not escaped");
  if (model.remove_extra_whitespaces) refuse_tokenizer(file.path(), "removed whitespace");
  if (!model.charsmap.empty()) refuse_tokenizer(file.path(), "a normalizer");
  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "llama");
  keys.add("tokenizer.ggml.pre", "default");
  add_gguf_tokens(model.pieces, true, vocab_size, file.path(), keys);
  add_gguf_id(keys, "tokenizer.ggml.bos_token_id", model.bos);
  add_gguf_id(keys, "tokenizer.ggml.eos_token_id", model.eos);
  add_gguf_id(keys, "tokenizer.ggml.unknown_token_id", model.unk);
  keys.add("tokenizer.ggml.add_bos_token", model.bos.has_value());
  keys.add("tokenizer.ggml.add_eos_token", false);
  keys.add("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  return keys;
}

// BPE in the form of a tokenizer.json.

/// A tokenizer.json and what the rest of its folder says.
struct Source {
  const TokenizerDocument& document;
  std::string_view path;
  std::string unk, eos;  // texts; "": the files name none

  std::optional<std::int32_t> id_of(const std::string& text) const {
    for (const Json& token : document.rest.value("added_tokens", Json::array())) {
      if (token.at("content") == text) return token.at("id").get<std::int32_t>();
    }
    const std::int32_t id = document.pieces.find(text);
    return id == kNoId ? std::nullopt : std::optional(id);
  }
};

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
    if (!plain) refuse_tokenizer(path, "a Split other than an isolated regex");
    patterns.push_back(pattern.at("Regex").get<std::string>());
  } else if (type == "ByteLevel") {
    if (is_true(stage, "add_prefix_space")) refuse_tokenizer(path, "add_prefix_space");
    if (stage.value("use_regex", true)) patterns.emplace_back(gguf_pre_tokenizer("gpt-2", path).patterns.front());
  } else {
    refuse_tokenizer(path, "the pre-tokenizer " + type);
  }
}

bool ends_in_byte_level(const Json& stage) {
  if (type_of(stage) != "Sequence") return type_of(stage) == "ByteLevel";
  const Json& stages = stage.at("pretokenizers");
  return !stages.empty() && ends_in_byte_level(stages.back());
}

void check_model(const Source& source) {
  const Json& rest = source.document.rest;
  const Json& model = rest.at("model");
  if (type_of(model) != "BPE") refuse_tokenizer(source.path, "the model " + type_of(model));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.contains(key) && model[key].is_string() && model[key] != "") refuse_tokenizer(source.path, key);
  }
}

/// The vocabulary by id, overridden by the added tokens. Sets `strips` to the ids of tokens that take the white space
/// on a side.
struct StrippingTokens {
  std::vector<std::int32_t> left, right;
};
std::vector<VocabularyPiece> tokens_of(const Source& source, bool has_bytes, StrippingTokens& strips) {
  const TokenizerDocument& document = source.document;
  std::map<std::int32_t, VocabularyPiece> added;
  const bool marks_spaces = has_bytes && !document.rest.value("normalizer", Json()).is_null();
  for (const Json& token : document.rest.value("added_tokens", Json::array())) {
    if (is_true(token, "single_word")) refuse_tokenizer(source.path, "added tokens that set single_word");
    const auto id = token.at("id").get<std::int32_t>();
    const std::string text = token.at("content").get<std::string>();
    const PieceType type = is_true(token, "special") ? PieceType::control : PieceType::user_defined;
    added[id] = {text, 0, has_bytes && text == source.unk ? PieceType::unknown : type};
    if (marks_spaces && is_true(token, "normalized")) continue;  // the white space beside it is no longer U+0020
    if (is_true(token, "lstrip")) strips.left.push_back(id);
    if (is_true(token, "rstrip")) strips.right.push_back(id);
  }
  const std::int32_t last = added.empty() ? -1 : added.rbegin()->first;
  const std::int32_t n = std::max(document.pieces.size(), last + 1);
  std::vector<VocabularyPiece> tokens;
  for (std::int32_t id = 0; id < n; ++id) {
    const auto it = added.find(id);
    if (it != added.end()) {
      tokens.push_back(it->second);
    } else if (document.pieces.contains(id)) {
      const std::string text(document.pieces.piece(id));
      tokens.push_back({text, 0, has_bytes && byte_of_piece(text) ? PieceType::byte : PieceType::normal});
    } else {
      tokens.push_back(padding_token(tokens.size(), 0));
    }
  }
  return tokens;
}

/// BOS and EOS: those that the tokenizer adds, otherwise those of the checkpoint, otherwise those of the folder.
void add_special_ids(const Source& source, const GgufTokenizerNeeds& needs, GgufKeys& keys) {
  const PostProcessor around = parse_post_processor(source.document.rest.value("post_processor", Json()), source.path);
  if (around.before.size() > 1 || around.after.size() > 1)
    refuse_tokenizer(source.path, "a template that adds more than BOS and EOS");
  std::vector<std::int32_t> stops = needs.stop_ids;
  if (const auto eos = source.id_of(source.eos); stops.empty() && eos) stops.push_back(*eos);
  if (!around.after.empty()) {  // llama.cpp adds the first
    std::erase(stops, around.after.front());
    stops.insert(stops.begin(), around.after.front());
  }
  add_gguf_id(keys, "tokenizer.ggml.bos_token_id", around.before.empty() ? needs.bos : around.before.front());
  constexpr const char* kStopKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
  for (std::size_t i = 0; i < std::min(stops.size(), std::size(kStopKeys)); ++i)
    keys.add(kStopKeys[i], static_cast<std::uint32_t>(stops[i]));
  if (stops.size() > std::size(kStopKeys)) keys.add(kGgufStopIds, stops);
  keys.add("tokenizer.ggml.add_bos_token", !around.before.empty());
  keys.add("tokenizer.ggml.add_eos_token", !around.after.empty());
  if (const auto separator = between_texts(around); separator && !separator->empty()) {
    add_gguf_id(keys, kGgufSeparator, separator->front());
    keys.add("tokenizer.ggml.add_sep_token", true);
  } else if (!around.after.empty()) {
    keys.add("tokenizer.ggml.add_sep_token", false);
  }
}

void add_strips(const StrippingTokens& strips, GgufKeys& keys) {
  if (!strips.left.empty()) keys.add(kGgufStripLeft, strips.left);
  if (!strips.right.empty()) keys.add(kGgufStripRight, strips.right);
}

/// "left right" of each merge.
std::vector<std::string> merges_of(const TokenizerDocument& document) {
  std::vector<std::string> merges;
  document.merges.for_each([&](const MergeList::Pair& pair) {
    merges.push_back(pair.right.empty() ? std::string(pair.left) : fmt::format("{} {}", pair.left, pair.right));
  });
  return merges;
}

GgufKeys byte_level_keys(const Source& source, const GgufTokenizerNeeds& needs) {
  const TokenizerDocument& document = source.document;
  const std::string normalizer = type_of(document.rest.value("normalizer", Json()));
  if (!normalizer.empty() && normalizer != "NFC") refuse_tokenizer(source.path, "the normalizer " + normalizer);
  std::vector<std::string> patterns;
  add_patterns(document.rest.at("pre_tokenizer"), source.path, patterns);
  const bool ignore_merges = is_true(document.rest.at("model"), "ignore_merges");
  const std::string_view pre = gguf_pre_name(patterns, ignore_merges);
  if (pre.empty()) refuse_tokenizer(source.path, "a pre-tokenizer that has no name in GGUF");

  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "gpt2");
  keys.add("tokenizer.ggml.pre", pre);
  StrippingTokens strips;
  add_gguf_tokens(tokens_of(source, false, strips), false, needs.vocab_size, source.path, keys);
  keys.add("tokenizer.ggml.merges", merges_of(document));
  add_special_ids(source, needs, keys);
  add_strips(strips, keys);
  return keys;
}

/// How a byte-fallback tokenizer begins a text: "prepend", with a space (llama.cpp's rule); "always" and "first", with
/// a space unless it has one, each part between special tokens or only the first; "never".
std::string prefix_of(const Source& source) {
  const auto list_of = [](const Json& step, const char* key) {
    Json list = Json::array();
    if (step.is_object() && step.contains(key)) return step[key];
    if (step.is_object()) list.push_back(step);
    return list;
  };
  const std::string space(kSpaceSymbol);
  std::string prefix = "never";
  bool marks_spaces = false, doubles = false;
  for (const Json& step : list_of(source.document.rest.value("normalizer", Json()), "normalizers")) {
    const Json pattern = step.value("pattern", Json::object());
    if (type_of(step) == "Prepend" && step.value("prepend", "") == space) {
      prefix = "prepend";
    } else if (type_of(step) == "Replace" && pattern.value("String", "") == " " && step.value("content", "") == space) {
      marks_spaces = true;
    } else if (type_of(step) == "Replace" && pattern.value("Regex", "") == "\\A" + space) {
      doubles = step.value("content", "") == space + space;
    } else {
      refuse_tokenizer(source.path, "the normalizer " + type_of(step));
    }
  }
  for (const Json& step : list_of(source.document.rest.value("pre_tokenizer", Json()), "pretokenizers")) {
    if (type_of(step) == "Split" && marks_spaces && step.value("pattern", Json::object()).value("String", "") == " ") {
      continue;  // no space is left
    }
    const bool plain =
        type_of(step) == "Metaspace" && step.value("replacement", "") == space && !step.value("split", true);
    if (!plain || prefix == "prepend") refuse_tokenizer(source.path, "the pre-tokenizer " + type_of(step));
    marks_spaces = true;
    prefix = step.value("prepend_scheme", "always");
  }
  if (!marks_spaces) refuse_tokenizer(source.path, "spaces that are no pieces");
  return doubles && prefix == "always" ? "prepend" : prefix;
}

/// SentencePiece's kind: llama.cpp merges the pair whose piece has the highest score, here minus the rank of the first
/// merge that makes the piece.
GgufKeys byte_fallback_keys(const Source& source, const GgufTokenizerNeeds& needs) {
  const TokenizerDocument& document = source.document;
  const std::string prefix = prefix_of(source);
  if (is_true(document.rest.at("model"), "ignore_merges")) refuse_tokenizer(source.path, "ignore_merges");
  StrippingTokens strips;
  std::vector<VocabularyPiece> tokens = tokens_of(source, true, strips);
  float rank = 0;
  document.merges.for_each([&](const MergeList::Pair& pair) {
    const std::int32_t id = document.pieces.find(std::string(pair.left).append(pair.right));
    if (id != kNoId && tokens[static_cast<std::size_t>(id)].score == 0)
      tokens[static_cast<std::size_t>(id)].score = -(rank + 1);
    ++rank;
  });
  GgufKeys keys;
  if (needs.keeps_merges && prefix != "never") refuse_tokenizer(source.path, "a space before the text");
  keys.add("tokenizer.ggml.model", needs.keeps_merges ? "gemma4" : "llama");
  if (!needs.keeps_merges) keys.add("tokenizer.ggml.pre", "default");
  add_gguf_tokens(std::move(tokens), true, needs.vocab_size, source.path, keys);
  if (needs.keeps_merges) keys.add("tokenizer.ggml.merges", merges_of(document));
  add_special_ids(source, needs, keys);
  add_gguf_id(keys, "tokenizer.ggml.unknown_token_id", source.id_of(source.unk));
  keys.add("tokenizer.ggml.add_space_prefix", prefix != "never");
  if (prefix == "first" || prefix == "always") keys.add(kGgufPrependScheme, prefix);
  add_strips(strips, keys);
  return keys;
}

GgufKeys document_keys(const TokenizerDocument& document, const std::string& path, const GgufTokenizerNeeds& needs,
                       const TokenizerFolder* folder) {
  const Json& model = document.rest.at("model");
  if (type_of(model) == "WordPiece" || type_of(model) == "Unigram") {
    NamedDocument named{document, path, {}};
    if (document.splits_special) refuse_tokenizer(path, "split_special_tokens");
    if (folder != nullptr) {
      for (const auto& [name, token] : folder->named) named.named.emplace(name, token_text(token, path));
    }
    return type_of(model) == "WordPiece" ? wordpiece_keys(named, needs) : unigram_keys(named, needs);
  }
  if (document.cleans_up) refuse_tokenizer(path, "clean_up_tokenization_spaces");
  Source source = {document, path, "<unk>", ""};
  if (model.contains("unk_token") && model["unk_token"].is_string()) source.unk = model["unk_token"].get<std::string>();
  if (folder != nullptr) {
    for (const auto& [name, token] : folder->named) {
      if (name == "unk_token") source.unk = token_text(token, path);
      if (name == "eos_token") source.eos = token_text(token, path);
    }
  }
  check_model(source);
  if (document.splits_special) refuse_tokenizer(path, "split_special_tokens");
  if (is_true(model, "byte_fallback")) return byte_fallback_keys(source, needs);
  if (!ends_in_byte_level(document.rest.value("pre_tokenizer", Json())))
    refuse_tokenizer(path, "pieces that are not byte-level");
  return byte_level_keys(source, needs);
}

GgufKeys keys_of_file(const std::string& path, const GgufTokenizerNeeds& needs) {
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  if (text.starts_with("GGUF")) return copied_keys(*file, needs.vocab_size);
  if (text.starts_with('\n')) return sentencepiece_keys(*file, needs.vocab_size);
  if (!text.starts_with('{')) throw Unsupported(path, "a tokenizer of this format cannot be written to a GGUF file");
  parse_tokenizer_json(text, path);  // refuses what vitrine cannot read
  return document_keys(parse_tokenizer_document(text, path), path, needs, nullptr);
}

GgufKeys keys_of_folder(const std::string& path, const GgufTokenizerNeeds& needs) {
  const TokenizerFolder folder = read_tokenizer_folder(path);
  if (folder.vocabulary.empty())
    throw BadInput(path, "expected tokenizer.json or tokenizer.model in the folder, got neither");
  const bool is_pair = folder.vocabulary.ends_with("vocab.json");
  if (is_plain(folder) && !is_pair) return keys_of_file(folder.vocabulary, needs);
  make_json_tokenizer(folder_document(folder), folder.vocabulary);  // refuses what vitrine cannot read
  return document_keys(folder_document(folder), folder.vocabulary, needs, &folder);
}

}  // namespace

GgufKeys gguf_tokenizer_keys(const std::string& path, const GgufTokenizerNeeds& needs) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return keys_of_file(path, needs);
  GgufKeys keys = keys_of_folder(path, needs);
  keys.add(gguf_chat_template_keys(load_chat_templates(path)));
  return keys;
}

GgufKeys no_gguf_tokenizer(const std::string& path) {
  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "no_vocab");
  if (!path.empty()) keys.add(gguf_chat_template_keys(open_chat_templates(path, "")));
  return keys;
}

}  // namespace vitrine
