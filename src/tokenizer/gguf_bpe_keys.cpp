#include "tokenizer/gguf_bpe_keys.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "tokenizer/gguf_pre.h"
#include "tokenizer/tokenizer_document.h"
#include "tokenizer/tokenizer_json.h"

namespace vitrine {
namespace {

[[noreturn]] void refuse(std::string_view path, std::string_view what) {
  throw Unsupported(path, "a tokenizer with {} cannot be written to GGUF", what);
}

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
GgufTokenList tokens_of(const TokenizerDocument& document, std::string_view path, std::int64_t vocab_size) {
  std::map<std::int32_t, std::pair<std::string, PieceType>> added;
  for (const Json& token : document.rest.value("added_tokens", Json::array())) {
    if (is_true(token, "lstrip") || is_true(token, "rstrip") || is_true(token, "single_word")) {
      refuse(path, "added tokens that set lstrip, rstrip or single_word");
    }
    const PieceType type = is_true(token, "special") ? PieceType::control : PieceType::user_defined;
    added[token.at("id").get<std::int32_t>()] = {token.at("content").get<std::string>(), type};
  }
  const std::int32_t last = added.empty() ? -1 : added.rbegin()->first;
  const std::int32_t n = std::max(document.pieces.size(), last + 1);
  GgufTokenList list;
  for (std::int32_t id = 0; id < n; ++id) {
    const auto it = added.find(id);
    if (it != added.end()) {
      list.add(it->second.first, 0, it->second.second);
    } else if (document.pieces.contains(id)) {
      list.add(document.pieces.piece(id), 0, PieceType::normal);
    } else {
      list.add(fmt::format("[PAD{}]", id), 0, PieceType::unused);
    }
  }
  list.pad(vocab_size, path);
  return list;
}

/// BOS and EOS: those that the tokenizer adds, otherwise those of the checkpoint.
void add_special_ids(const Tokenizer& tokenizer, std::string_view path, const GgufTokenizerNeeds& needs,
                     GgufKeys& keys) {
  const std::vector<std::int32_t> added = tokenizer.encode("", SpecialTokens::apply);
  if (added.size() > 1) refuse(path, "a template that adds more than BOS");
  const std::vector<std::int32_t>& stops = needs.stop_ids.empty() ? tokenizer.stop_ids() : needs.stop_ids;
  std::optional<std::int32_t> bos = tokenizer.bos() ? tokenizer.bos() : needs.bos;
  if (!added.empty()) bos = added.front();
  if (bos) keys.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*bos));
  if (!stops.empty()) keys.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(stops.front()));
  if (stops.size() > 1) keys.add("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(stops[1]));
  keys.add("tokenizer.ggml.add_bos_token", !added.empty());
  keys.add("tokenizer.ggml.add_eos_token", false);
}

}  // namespace

GgufKeys gguf_bpe_keys(std::string_view text, std::string_view path, const GgufTokenizerNeeds& needs) {
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
  tokens_of(document, path, needs.vocab_size).add_to(keys, false);
  std::vector<std::string> merges;
  document.merges.for_each([&](const MergeList::Pair& pair) {
    merges.push_back(pair.right.empty() ? std::string(pair.left) : fmt::format("{} {}", pair.left, pair.right));
  });
  keys.add("tokenizer.ggml.merges", merges);
  add_special_ids(*tokenizer, path, needs, keys);
  return keys;
}

}  // namespace vitrine
