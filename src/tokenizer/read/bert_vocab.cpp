#include "tokenizer/read/bert_vocab.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "tokenizer/read/tokenizer_config.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// Blank lines have ids but are not pieces.
PieceTable parse_lines(std::string_view text, std::string_view path) {
  if (text.size() > kMaxTokenizerBytes) {
    throw Unsupported(path, "a vocabulary of more than {} bytes is not supported, got {}", kMaxTokenizerBytes,
                      text.size());
  }
  if (!is_valid_utf8(text)) throw BadCheckpoint(path, "expected UTF-8, got other bytes");
  PieceTable pieces;
  for (std::int32_t id = 0; !text.empty(); ++id) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (id > PieceTable::kMaxId) throw BadCheckpoint(path, "expected at most {} lines", PieceTable::kMaxId);
    if (line.empty() || pieces.add(line, id)) continue;
    throw BadCheckpoint(path, "lines {} and {} have the same piece \"{}\"", pieces.find(line) + 1, id + 1, line);
  }
  return pieces;
}

/// The transformers of version 4 write "BertTokenizerFast".
void check_class(const JsonFields& config) {
  std::string name = config.string("tokenizer_class", "BertTokenizer");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  for (const char* known : {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"}) {
    if (name == known) return;
  }
  throw Unsupported(config.where(), "tokenizer_class: vocab.txt of a {} is not supported", name);
}

/// The template [CLS] A [SEP] B [SEP] of BERT.
Json bert_template(const std::string& cls, std::int32_t cls_id, const std::string& sep, std::int32_t sep_id) {
  const auto special = [](const std::string& token, unsigned type) {
    return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, unsigned type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto ids = [](std::int32_t id) { return Json{{"ids", Json::array({static_cast<std::uint32_t>(id)})}}; };
  const Json single = Json::array({special(cls, 0), text("A", 0), special(sep, 0)});
  Json pair = single;
  pair.push_back(text("B", 1));
  pair.push_back(special(sep, 1));
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", {{cls, ids(cls_id)}, {sep, ids(sep_id)}}}};
}

}  // namespace

std::unique_ptr<const Tokenizer> parse_bert_vocab(std::string_view vocab, std::string_view vocab_path,
                                                  std::string_view config, std::string_view config_path) {
  const Json json = config.empty() ? Json::object() : parse_json(config, config_path);
  const JsonFields fields(json, "the configuration", config_path);
  check_class(fields);
  TokenizerDocument document;
  document.pieces = parse_lines(vocab, vocab_path);
  document.has_vocab = true;
  Json added = added_tokens_of(fields);
  const auto add_special = [&](const char* key, const char* fallback) {
    const std::string name = special_token_name(fields, key, fallback);
    const auto is_it = [&](const Json& token) { return token.contains("content") && token["content"] == name; };
    const std::int32_t id = document.pieces.find(name);
    if (id != kNoId && std::none_of(added.begin(), added.end(), is_it)) {
      added.push_back({{"id", static_cast<std::uint32_t>(id)}, {"content", name}, {"special", true}});
    }
    return std::pair(name, id);
  };
  const auto required = [&](const char* key, const char* fallback) {
    const auto token = add_special(key, fallback);
    if (token.second != kNoId) return token;
    throw BadCheckpoint(vocab_path, "expected the {} \"{}\" in the vocabulary, got none", key, token.first);
  };
  const auto [unk, unk_id] = required("unk_token", "[UNK]");
  const auto [sep, sep_id] = required("sep_token", "[SEP]");
  const auto [cls, cls_id] = required("cls_token", "[CLS]");
  add_special("pad_token", "[PAD]");
  add_special("mask_token", "[MASK]");
  const Json* accents = fields.find("strip_accents");
  document.rest = {{"added_tokens", std::move(added)},
                   {"normalizer",
                    {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", fields.boolean("tokenize_chinese_chars", true)},
                     {"strip_accents", accents == nullptr ? Json() : Json(fields.boolean("strip_accents"))},
                     {"lowercase", fields.boolean("do_lower_case", true)}}},
                   {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                   {"post_processor", bert_template(cls, cls_id, sep, sep_id)},
                   {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                   {"model",
                    {{"type", "WordPiece"},
                     {"unk_token", unk},
                     {"continuing_subword_prefix", "##"},
                     {"max_input_chars_per_word", 100U},
                     {"vocab", nullptr}}}};
  return make_json_tokenizer(std::move(document), vocab_path);
}

}  // namespace vitrine
