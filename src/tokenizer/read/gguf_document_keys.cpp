// Writes WordPiece and Unigram as the kinds "bert" and "t5".
#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/read/gguf_document.h"
#include "tokenizer/read/gguf_token_list.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {
namespace {

using PartKind = PairPart::Kind;

std::string json_type(const Json& object) { return object.is_object() ? object.value("type", "") : ""; }

std::optional<std::int32_t> id_of(const NamedDocument& source, const std::string& text) {
  if (text.empty()) return std::nullopt;
  for (const Json& token : source.document.rest.value("added_tokens", Json::array())) {
    if (token.at("content") == text) return token.at("id").get<std::int32_t>();
  }
  const std::int32_t id = source.document.pieces.find(text);
  return id == kNoId ? std::nullopt : std::optional(id);
}

/// The tokens by id, and those among them whose flags llama.cpp has no keys for.
struct TokenList {
  std::vector<VocabularyPiece> tokens;
  std::vector<std::int32_t> left, right, normalized;

  void add_flags(GgufKeys& keys) const {
    if (!left.empty()) keys.add(kGgufStripLeft, left);
    if (!right.empty()) keys.add(kGgufStripRight, right);
    if (!normalized.empty()) keys.add(kGgufNormalized, normalized);
  }
};

/// `spell` gives a piece its spelling in the file.
template <class Spell>
TokenList list_tokens(const NamedDocument& source, float padding_score, Spell&& spell) {
  const TokenizerDocument& document = source.document;
  TokenList list;
  const auto at = [&](std::int32_t id) -> VocabularyPiece& {
    while (std::ssize(list.tokens) <= id) list.tokens.push_back(padding_token(list.tokens.size(), padding_score));
    return list.tokens[static_cast<std::size_t>(id)];
  };
  for (std::int32_t id = 0; id < document.pieces.size(); ++id) {
    if (!document.pieces.contains(id)) continue;
    const float score = document.is_scored ? static_cast<float>(document.scores[static_cast<std::size_t>(id)]) : 0;
    at(id) = {spell(std::string(document.pieces.piece(id))), score, PieceType::normal};
  }
  for (const Json& token : document.rest.value("added_tokens", Json::array())) {
    const auto is_set = [&](const char* flag) { return token.value(flag, Json(false)) == true; };
    if (is_set("single_word")) refuse_tokenizer(source.path, "added tokens that set single_word");
    const auto id = token.at("id").get<std::int32_t>();
    VocabularyPiece& piece = at(id);
    piece.text = token.at("content").get<std::string>();
    piece.type = is_set("special") ? PieceType::control : PieceType::user_defined;
    if (is_set("lstrip")) list.left.push_back(id);
    if (is_set("rstrip")) list.right.push_back(id);
    if (token.value("normalized", Json(!is_set("special"))) == true) list.normalized.push_back(id);
  }
  std::set<std::string_view> texts;
  for (const VocabularyPiece& token : list.tokens) {
    if (!texts.insert(token.text).second) refuse_tokenizer(source.path, "pieces that GGUF would spell alike");
  }
  return list;
}

PostProcessor checked_template(const NamedDocument& source) {
  PostProcessor around = parse_post_processor(source.document.rest.value("post_processor", Json()), source.path);
  if (around.before.size() > 1 || around.after.size() > 1) {
    refuse_tokenizer(source.path, "a template that adds more than one token on a side");
  }
  return around;
}

void add_named_ids(const NamedDocument& source, GgufKeys& keys) {
  const std::pair<const char*, const char*> kNames[] = {{"pad_token", "tokenizer.ggml.padding_token_id"},
                                                        {"mask_token", "tokenizer.ggml.mask_token_id"}};
  for (const auto& [name, key] : kNames) {
    const auto it = source.named.find(name);
    if (it != source.named.end()) add_gguf_id(keys, key, id_of(source, it->second));
  }
}

void check_wordpiece(const NamedDocument& source) {
  const Json& rest = source.document.rest;
  const Json& model = rest.at("model");
  const Json normalizer = rest.value("normalizer", Json());
  if (model.value("continuing_subword_prefix", "##") != "##") {
    refuse_tokenizer(source.path, "a continuing_subword_prefix other than ##");
  }
  if (model.value("max_input_chars_per_word", 100) != 100) {
    refuse_tokenizer(source.path, "a max_input_chars_per_word other than 100");
  }
  if (json_type(normalizer) != "BertNormalizer")
    refuse_tokenizer(source.path, "a normalizer other than BertNormalizer");
  for (const char* key : {"clean_text", "handle_chinese_chars"}) {
    if (normalizer.value(key, Json(true)) != true) refuse_tokenizer(source.path, std::string(key) + " false");
  }
  if (json_type(rest.value("pre_tokenizer", Json())) != "BertPreTokenizer") {
    refuse_tokenizer(source.path, "a pre-tokenizer other than BertPreTokenizer");
  }
}

}  // namespace

std::optional<std::vector<std::int32_t>> between_texts(const PostProcessor& around) {
  std::vector<std::int32_t> before, between, after;
  int second = 0;
  for (const PairPart& part : around.pair.value_or(std::vector<PairPart>())) {
    if (part.kind == PartKind::first && second != 0) return {};
    if (part.kind != PartKind::added) ++second;
    std::vector<std::int32_t>& to = second == 0 ? before : second == 1 ? between : after;
    to.insert(to.end(), part.ids.begin(), part.ids.end());
  }
  const bool has_ends = std::mismatch(around.after.begin(), around.after.end(), between.begin(), between.end()).first ==
                        around.after.end();
  if (second != 2 || before != around.before || after != around.after || !has_ends) return {};
  between.erase(between.begin(), between.begin() + std::ssize(around.after));
  return between;
}

GgufKeys wordpiece_keys(const NamedDocument& source, const GgufTokenizerNeeds& needs) {
  const Json& rest = source.document.rest;
  check_wordpiece(source);
  const PostProcessor around = checked_template(source);
  const auto between = between_texts(around);
  const bool is_bert = around.before.size() == 1 && around.after.size() == 1 && (!around.pair || between);
  if (!is_bert || (between && !between->empty())) {
    refuse_tokenizer(source.path, "a template other than [CLS] A [SEP] B [SEP]");
  }
  if (needs.n_types > 1 && around.pair) {
    for (const PairPart& part : *around.pair) {
      if (part.kind == PartKind::second && part.type != 1) refuse_tokenizer(source.path, "a second text of type 0");
    }
  }
  const auto unk = id_of(source, rest.at("model").value("unk_token", "[UNK]"));
  if (!unk) refuse_tokenizer(source.path, "no unknown token");
  const std::string space(kSpaceSymbol);
  const TokenList list = list_tokens(source, 0, [&](const std::string& text) {
    if (!text.starts_with("##") || text.size() == 2) return space + text;
    if (text.size() > 2 + space.size() && text.starts_with("##" + space)) {
      refuse_tokenizer(source.path, "pieces that GGUF would spell alike");
    }
    return text.substr(2);
  });
  const Json& normalizer = rest.at("normalizer");
  const bool lowercase = normalizer.value("lowercase", true);
  const Json accents = normalizer.value("strip_accents", Json());

  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "bert");
  keys.add("tokenizer.ggml.pre", "default");
  add_gguf_tokens(list.tokens, false, needs.vocab_size, source.path, keys);
  add_gguf_id(keys, "tokenizer.ggml.bos_token_id", around.before.front());
  add_gguf_id(keys, "tokenizer.ggml.eos_token_id", around.after.front());
  add_gguf_id(keys, kGgufSeparator, around.after.front());
  add_gguf_id(keys, "tokenizer.ggml.unknown_token_id", unk);
  add_named_ids(source, keys);
  keys.add("tokenizer.ggml.add_bos_token", true);
  keys.add("tokenizer.ggml.add_eos_token", true);
  keys.add("tokenizer.ggml.add_sep_token", false);
  keys.add("tokenizer.ggml.normalizer.lowercase", lowercase);
  keys.add("tokenizer.ggml.normalizer.strip_accents", accents.is_boolean() ? accents.get<bool>() : lowercase);
  list.add_flags(keys);
  return keys;
}

namespace {

/// How the steps make pieces of spaces: see gguf_document.cpp.
struct SpaceRule {
  std::string charsmap;  // base64
  std::string scheme;    // Metaspace's; "": words at white space
  bool removes = false;
};

SpaceRule space_rule_of(const NamedDocument& source) {
  const auto list_of = [](const Json& step, const char* key) {
    if (json_type(step) == "Sequence") return step.at(key);
    return step.is_object() ? Json::array({step}) : Json::array();
  };
  const Json& rest = source.document.rest;
  SpaceRule rule;
  for (const Json& step : list_of(rest.value("normalizer", Json()), "normalizers")) {
    const bool is_replace = json_type(step) == "Replace" && step.value("content", "") == " " &&
                            step.at("pattern").value("Regex", "") == " {2,}";
    if (json_type(step) == "Precompiled" && rule.charsmap.empty() && !rule.removes) {
      rule.charsmap = step.at("precompiled_charsmap").get<std::string>();
    } else if (is_replace && !rule.removes) {
      rule.removes = true;
    } else {
      refuse_tokenizer(source.path, "the normalizer " + json_type(step));
    }
  }
  const Json steps = list_of(rest.value("pre_tokenizer", Json()), "pretokenizers");
  const bool splits = !steps.empty() && json_type(steps[0]) == "WhitespaceSplit";
  const std::size_t last = splits ? 1 : 0;
  if (steps.size() != last + 1 || json_type(steps[last]) != "Metaspace" || !steps[last].value("split", true) ||
      steps[last].value("replacement", "") != kSpaceSymbol) {
    refuse_tokenizer(source.path, "a pre-tokenizer other than Metaspace, or WhitespaceSplit and Metaspace");
  }
  const bool adds = steps[last].value("add_prefix_space", true);
  const std::string scheme = steps[last].value("prepend_scheme", adds ? "always" : "never");
  if (!splits) rule.scheme = scheme;
  if (splits && (scheme != "always" || rule.removes))
    refuse_tokenizer(source.path, "words without a space before them");
  rule.removes |= splits;
  return rule;
}

}  // namespace

GgufKeys unigram_keys(const NamedDocument& source, const GgufTokenizerNeeds& needs) {
  const Json& model = source.document.rest.at("model");
  if (model.value("byte_fallback", false)) refuse_tokenizer(source.path, "a Unigram with byte_fallback");
  if (!model.contains("unk_id") || !model["unk_id"].is_number_unsigned()) {
    refuse_tokenizer(source.path, "no unknown token");
  }
  const SpaceRule spaces = space_rule_of(source);
  const PostProcessor around = checked_template(source);
  const auto between = between_texts(around);
  if (around.pair && (!between || between->size() > 1)) refuse_tokenizer(source.path, "this template of pairs");
  const auto unk = model["unk_id"].get<std::int32_t>();
  TokenList list = list_tokens(source, -10000, [](std::string text) { return text; });
  list.tokens[static_cast<std::size_t>(unk)].type = PieceType::unknown;

  GgufKeys keys;
  keys.add("tokenizer.ggml.model", "t5");
  keys.add("tokenizer.ggml.pre", "default");
  add_gguf_tokens(list.tokens, true, needs.vocab_size, source.path, keys);
  keys.add("tokenizer.ggml.add_space_prefix", spaces.scheme != "never");
  keys.add("tokenizer.ggml.remove_extra_whitespaces", spaces.removes);
  if (!spaces.scheme.empty()) keys.add(kGgufPrependScheme, spaces.scheme);
  if (!spaces.charsmap.empty()) {
    std::string digits = spaces.charsmap;
    digits.erase(digits.find_last_not_of('=') + 1);
    const auto blob = decode_base64(digits);
    if (!blob) throw BadCheckpoint(source.path, "precompiled_charsmap is not valid base64");
    keys.add("tokenizer.ggml.precompiled_charsmap",
             GgufValue{GgufType::array, GgufType::u8, blob->bytes.size(), std::as_bytes(std::span(blob->bytes))});
  }
  if (!around.before.empty()) add_gguf_id(keys, "tokenizer.ggml.bos_token_id", around.before.front());
  if (!around.after.empty()) add_gguf_id(keys, "tokenizer.ggml.eos_token_id", around.after.front());
  if (between && !between->empty()) add_gguf_id(keys, kGgufSeparator, between->front());
  add_gguf_id(keys, "tokenizer.ggml.unknown_token_id", unk);
  add_named_ids(source, keys);
  keys.add("tokenizer.ggml.add_bos_token", !around.before.empty());
  keys.add("tokenizer.ggml.add_eos_token", !around.after.empty());
  keys.add("tokenizer.ggml.add_sep_token", between && !between->empty());
  list.add_flags(keys);
  return keys;
}

}  // namespace vitrine
