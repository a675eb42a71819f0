#include "tokenizer/read/gguf_document.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {
namespace {

constexpr std::string_view kContinues = "##";

using Piece = GgufVocabulary::Piece;

/// The id at a key, else `usual`, if it is one of the tokens.
std::optional<std::int32_t> id_at(const GgufMetadata& metadata, const char* key, std::size_t n_tokens,
                                  std::optional<std::int32_t> usual = {}) {
  if (const auto id = gguf_special_id(metadata, key, n_tokens)) return id;
  return usual && static_cast<std::size_t>(*usual) < n_tokens ? usual : std::nullopt;
}

std::int32_t needed_id(const GgufMetadata& metadata, const char* key, std::size_t n_tokens, std::int32_t usual) {
  if (const auto id = id_at(metadata, key, n_tokens, usual)) return *id;
  throw BadCheckpoint(metadata.path(), "expected {}, an id of the {} tokens; --tokenizer gives another tokenizer", key,
                      n_tokens);
}

/// The special tokens and those of the user.
Json added_tokens(const GgufMetadata& metadata, const std::vector<Piece>& pieces) {
  const auto ids_at = [&](const char* key) {
    const std::vector<std::size_t> ids = own_gguf_ids(metadata, key, pieces.size());
    return std::set<std::size_t>(ids.begin(), ids.end());
  };
  const auto left = ids_at(kGgufStripLeft), right = ids_at(kGgufStripRight), normalized = ids_at(kGgufNormalized);
  Json tokens = Json::array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].is_control() && pieces[id].type != PieceType::user_defined) continue;
    tokens.push_back({{"id", static_cast<std::uint64_t>(id)},
                      {"content", pieces[id].text},
                      {"single_word", false},
                      {"lstrip", left.contains(id)},
                      {"rstrip", right.contains(id)},
                      {"normalized", normalized.contains(id)},
                      {"special", pieces[id].is_control()}});
  }
  return tokens;
}

/// The template of texts and pairs of them.
class Template {
 public:
  explicit Template(const std::vector<Piece>& pieces) : pieces_(pieces) {}

  Json token(std::int32_t id, int type = 0) {
    const std::string& name = pieces_[static_cast<std::size_t>(id)].text;
    special_[name] = {{"id", name}, {"ids", Json::array({static_cast<std::uint64_t>(id)})}, {"tokens", {name}}};
    return {{"SpecialToken", {{"id", name}, {"type_id", static_cast<std::uint64_t>(type)}}}};
  }
  static Json text(const char* name, int type = 0) {
    return {{"Sequence", {{"id", name}, {"type_id", static_cast<std::uint64_t>(type)}}}};
  }
  Json processor(Json single, Json pair) const {
    return {{"type", "TemplateProcessing"},
            {"single", std::move(single)},
            {"pair", std::move(pair)},
            {"special_tokens", special_}};
  }

 private:
  const std::vector<Piece>& pieces_;
  Json special_ = Json::object();
};

void add_piece(const GgufMetadata& metadata, std::string_view text, std::size_t id, TokenizerDocument& document) {
  if (document.pieces.add(text, static_cast<std::int32_t>(id))) return;
  throw BadCheckpoint(metadata.path(), "tokens {} and {} have the same text; --tokenizer gives another tokenizer",
                      document.pieces.find(text), id);
}

TokenizerDocument wordpiece_document(const GgufMetadata& metadata) {
  std::vector<Piece> pieces = read_gguf_pieces(metadata);
  const std::size_t n = pieces.size();
  TokenizerDocument document;
  document.has_vocab = true;
  document.cleans_up = true;
  for (std::size_t id = 0; id < n; ++id) {
    std::string& text = pieces[id].text;
    const bool begins = text.starts_with(kSpaceSymbol) && text.size() > kSpaceSymbol.size();
    const bool is_text = pieces[id].type == PieceType::normal || pieces[id].type == PieceType::unused;
    if (begins && pieces[id].type != PieceType::control) {
      text.erase(0, kSpaceSymbol.size());
    } else if (is_text) {
      text.insert(0, kContinues);
    }
    if (pieces[id].type != PieceType::unused) add_piece(metadata, text, id, document);
  }
  if (metadata.boolean("tokenizer.ggml.add_bos_token") == false) {
    throw Unsupported(metadata.path(), "tokenizer.ggml.add_bos_token: expected true for WordPiece, got false");
  }
  const std::int32_t cls = needed_id(metadata, "tokenizer.ggml.bos_token_id", n, 101),
                     sep = needed_id(metadata, kGgufSeparator, n, 102),
                     unk = needed_id(metadata, "tokenizer.ggml.unknown_token_id", n, 100);
  const int second = metadata.integer(kGgufTypeCount).value_or(2) > 1 ? 1 : 0;
  Template around(pieces);
  Json single = {around.token(cls), Template::text("A"), around.token(sep)};
  Json pair = {around.token(cls), Template::text("A"), around.token(sep), Template::text("B", second),
               around.token(sep, second)};
  const bool lowercase = metadata.boolean("tokenizer.ggml.normalizer.lowercase").value_or(true);
  document.rest = {{"added_tokens", added_tokens(metadata, pieces)},
                   {"normalizer",
                    {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", true},
                     {"strip_accents", metadata.boolean("tokenizer.ggml.normalizer.strip_accents").value_or(lowercase)},
                     {"lowercase", lowercase}}},
                   {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                   {"model",
                    {{"type", "WordPiece"},
                     {"vocab", nullptr},
                     {"unk_token", pieces[static_cast<std::size_t>(unk)].text},
                     {"continuing_subword_prefix", std::string(kContinues)},
                     {"max_input_chars_per_word", 100U}}},
                   {"post_processor", around.processor(std::move(single), std::move(pair))},
                   {"decoder", {{"type", "WordPiece"}, {"prefix", std::string(kContinues)}, {"cleanup", true}}}};
  return document;
}

/// The rules of the normalization, as the file has them.
Json charsmap_step(const GgufMetadata& metadata) {
  const GgufValue* const map = metadata.find("tokenizer.ggml.precompiled_charsmap");
  if (map == nullptr || map->count == 0) return nullptr;
  const bool is_bytes = map->type == GgufType::array && (map->element == GgufType::u8 || map->element == GgufType::i8);
  if (!is_bytes) throw BadCheckpoint(metadata.path(), "tokenizer.ggml.precompiled_charsmap: expected a list of bytes");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(map->bytes.data());
  return {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64({bytes, map->bytes.size()})}};
}

Json metaspace(const std::string& scheme) {
  return {{"type", "Metaspace"}, {"replacement", std::string(kSpaceSymbol)}, {"prepend_scheme", scheme}};
}

/// How spaces become pieces. With a scheme of vitrine's own, as Metaspace does; otherwise as SentencePiece does.
void set_spaces(const GgufMetadata& metadata, Json& document) {
  const bool removes = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  const bool prepends = metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(false);
  const std::string scheme(metadata.string(kGgufPrependScheme).value_or(""));
  if (!scheme.empty() && scheme != "first" && scheme != "always" && scheme != "never") {
    throw BadCheckpoint(metadata.path(), "{}: expected first, always or never, got {}", kGgufPrependScheme, scheme);
  }
  Json steps = Json::array();
  if (const Json step = charsmap_step(metadata); !step.is_null()) steps.push_back(step);
  const auto replace = [&](const char* kind, const std::string& pattern, const std::string& content) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}});
  };
  const std::string space(kSpaceSymbol);
  std::string decoded = scheme;
  if (!scheme.empty()) {
    if (removes) replace("Regex", " {2,}", " ");
    document["pre_tokenizer"] = metaspace(scheme);
  } else if (removes) {
    Json parts = Json::array({{{"type", "WhitespaceSplit"}}, metaspace("always")});
    document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
    decoded = "always";
  } else {
    replace("String", " ", space);
    if (prepends) {
      steps.push_back({{"type", "Prepend"}, {"prepend", space}});
      replace("Regex", "\\A" + space + "(?=" + space + "*\\z)", "");  // white space alone gets no other
    }
    decoded = prepends ? "always" : "never";
  }
  document["normalizer"] = steps.empty() ? Json() : Json{{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  document["decoder"] = metaspace(decoded);
}

TokenizerDocument unigram_document(const GgufMetadata& metadata) {
  std::vector<Piece> pieces = read_gguf_pieces(metadata);
  const std::size_t n = pieces.size();
  if (metadata.find("tokenizer.ggml.scores") == nullptr) {
    throw BadCheckpoint(metadata.path(), "expected tokenizer.ggml.scores, got none");
  }
  TokenizerDocument document;
  document.has_vocab = document.is_scored = true;
  std::size_t end = n;  // rows of the embedding without a token follow
  while (end > 0 && pieces[end - 1].type == PieceType::unused) --end;
  bool has_bytes = false;
  for (std::size_t id = 0; id < end; ++id) {
    has_bytes |= pieces[id].type == PieceType::byte;
    add_piece(metadata, pieces[id].text, id, document);
    document.scores.push_back(static_cast<double>(pieces[id].score));
  }
  const std::int32_t unk = needed_id(metadata, "tokenizer.ggml.unknown_token_id", end, 2);
  const bool adds_bos = metadata.boolean("tokenizer.ggml.add_bos_token").value_or(false),
             adds_eos = metadata.boolean("tokenizer.ggml.add_eos_token").value_or(true),
             adds_sep = metadata.boolean("tokenizer.ggml.add_sep_token").value_or(false);
  Template around(pieces);
  Json single = Json::array(), pair = Json::array();
  if (adds_bos) {
    single.push_back(around.token(needed_id(metadata, "tokenizer.ggml.bos_token_id", end, PieceTable::kMaxId)));
    pair.push_back(single.front());
  }
  single.push_back(Template::text("A"));
  pair.push_back(Template::text("A"));
  if (adds_eos) {
    single.push_back(around.token(needed_id(metadata, "tokenizer.ggml.eos_token_id", end, 1)));
    pair.push_back(single.back());
  }
  if (adds_sep) pair.push_back(around.token(needed_id(metadata, kGgufSeparator, end, PieceTable::kMaxId)));
  pair.push_back(Template::text("B"));
  if (adds_eos) pair.push_back(single.back());
  document.rest = {{"added_tokens", added_tokens(metadata, pieces)},
                   {"model",
                    {{"type", "Unigram"},
                     {"vocab", nullptr},
                     {"unk_id", static_cast<std::uint64_t>(unk)},
                     {"byte_fallback", has_bytes}}},
                   {"post_processor", around.processor(std::move(single), std::move(pair))}};
  set_spaces(metadata, document.rest);
  return document;
}

}  // namespace

TokenizerDocument gguf_document(const GgufMetadata& metadata) {
  return metadata.string("tokenizer.ggml.model") == "bert" ? wordpiece_document(metadata) : unigram_document(metadata);
}

}  // namespace vitrine
