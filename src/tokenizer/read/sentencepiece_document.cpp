#include "tokenizer/read/sentencepiece_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxNumbered = 1 << 16;  // pieces that extra_ids or offset add

using Scored = std::pair<std::string, double>;

/// The piece of a token. transformers names that of a token that is null "None".
std::string token_of(const JsonFields& config, const char* key, const char* usual) {
  if (config.is_null(key)) return "None";
  const Json* token = config.find(key);
  return token == nullptr ? usual : token_text(*token, config.where());
}

std::int64_t count_of(const JsonFields& config, const char* key, std::int64_t usual) {
  const std::int64_t n = config.integer(key, usual);
  if (n > kMaxNumbered) throw Unsupported(config.where(), "{}: expected at most {}, got {}", key, kMaxNumbered, n);
  return n;
}

/// The first tokens of fairseq's vocabularies.
std::vector<Scored> fairseq_tokens(const JsonFields& config, const char* first) {
  return {{token_of(config, first, "<s>"), 0},
          {token_of(config, "pad_token", "<pad>"), 0},
          {token_of(config, "eos_token", "</s>"), 0},
          {token_of(config, "unk_token", "<unk>"), 0}};
}

std::vector<Scored> pegasus_tokens(const JsonFields& config) {
  const std::string mask = token_of(config, "mask_token", "<mask_1>"),
                    sentence = token_of(config, "mask_token_sent", "<mask_2>");
  std::vector<Scored> pieces = {
      {token_of(config, "pad_token", "<pad>"), 0}, {token_of(config, "eos_token", "</s>"), 0}, {mask, 0}};
  if (sentence != mask) pieces.emplace_back(sentence, 0);
  for (std::int64_t i = 2; i < count_of(config, "offset", kUsualOffset); ++i) pieces.emplace_back(unk_piece(i), -100);
  return pieces;
}

/// The pieces in the order of the class.
std::vector<Scored> ordered(const SentencePieceModel& model, const TokenizerClass& rules, const JsonFields& config) {
  std::vector<Scored> pieces;
  std::size_t skipped = 0;  // pieces of the model that others replace
  switch (rules.order) {
    case PieceOrder::kept:
      break;
    case PieceOrder::fairseq:
    case PieceOrder::fairseq_languages:
      pieces = fairseq_tokens(config, rules.name == "MBart50Tokenizer" ? "cls_token" : "bos_token");
      skipped = 3;
      break;
    case PieceOrder::nllb:
      pieces = fairseq_tokens(config, "bos_token");
      for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
        const auto is_it = [&](const Scored& other) { return other.first == piece->first; };
        if (std::none_of(pieces.begin(), piece, is_it)) continue;
        throw Unsupported(config.where(),
                          "expected four tokens as bos_token, pad_token, eos_token and unk_token, got "
                          "\"{}\" twice",
                          piece->first);
      }
      break;
    case PieceOrder::pegasus:
      pieces = pegasus_tokens(config);
      skipped = 2;
      break;
  }
  const std::size_t n_first = pieces.size();
  for (std::size_t i = std::min(skipped, model.pieces.size()); i < model.pieces.size(); ++i) {
    const VocabularyPiece& piece = model.pieces[i];
    const auto is_it = [&](const Scored& known) { return known.first == piece.text; };
    const auto end = pieces.begin() + static_cast<std::ptrdiff_t>(n_first);
    if (rules.order == PieceOrder::nllb && std::any_of(pieces.begin(), end, is_it)) continue;
    pieces.emplace_back(piece.text, static_cast<double>(piece.score));
  }
  if (rules.order == PieceOrder::fairseq_languages) {
    for (const std::string& language : rules.languages()) pieces.emplace_back(language, 0);
  }
  if (rules.order == PieceOrder::fairseq || rules.order == PieceOrder::fairseq_languages) {
    pieces.emplace_back(token_of(config, "mask_token", "<mask>"), 0);
  }
  if (rules.name == "T5Tokenizer") {
    for (std::int64_t i = count_of(config, "extra_ids", kUsualExtraIds); i-- > 0;) pieces.emplace_back(extra_id(i), 0);
  }
  return pieces;
}

void add_pieces(const std::vector<Scored>& pieces, bool is_scored, TokenizerDocument& document) {
  for (const auto& [text, score] : pieces) {
    document.pieces.add(text, document.pieces.size(), true);
    document.scores.push_back(score);
  }
  document.has_vocab = true;
  document.is_scored = is_scored;
}

/// Calls `visit(left, right)` for each way to divide a piece into two pieces.
template <class Visit>
void for_each_split(std::string_view piece, const PieceTable& pieces, Visit&& visit) {
  for (std::size_t i = length_by_lead(piece[0]); i < piece.size(); i += length_by_lead(piece[i])) {
    const std::string_view left = piece.substr(0, i), right = piece.substr(i);
    if (pieces.find(left) != kNoId && pieces.find(right) != kNoId) visit(left, right);
  }
}

/// Merges in the order of the pieces that they make.
void add_merges_by_id(const SentencePieceModel& model, const PieceTable& pieces, MergeList& merges) {
  for (const VocabularyPiece& piece : model.pieces) {
    for_each_split(piece.text, pieces, [&](std::string_view left, std::string_view right) { merges.add(left, right); });
  }
}

/// Merges of normal pieces in the order of the scores of the pieces that they make.
void add_merges_by_score(const std::vector<VocabularyPiece>& pieces, MergeList& merges) {
  PieceTable normal;
  for (const VocabularyPiece& piece : pieces) {
    if (piece.type == PieceType::normal) normal.add(piece.text, normal.size());
  }
  std::vector<std::tuple<float, std::size_t, std::string_view, std::string_view>> ranked;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type != PieceType::normal) continue;
    for_each_split(pieces[i].text, normal, [&](std::string_view left, std::string_view right) {
      ranked.emplace_back(-pieces[i].score, i, left, right);
    });
  }
  std::sort(ranked.begin(), ranked.end());
  for (const auto& merge : ranked) merges.add(std::get<2>(merge), std::get<3>(merge));
}

Json regex_replace(const char* pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", std::string(content)}};
}
Json text_replace(std::string_view text, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"String", std::string(text)}}}, {"content", std::string(content)}};
}

Json backend_normalizer(const SentencePieceModel& model, bool legacy) {
  Json steps = Json::array();
  const std::string space(kSpaceSymbol);
  if (!model.charsmap_base64.empty()) {
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", model.charsmap_base64}});
  }
  if (model.remove_extra_whitespaces) {
    steps.push_back(regex_replace(R"(\A +| +\z)", ""));
    steps.push_back(regex_replace(" {2,}", " "));
  }
  if (model.escape_whitespaces) steps.push_back(text_replace(" ", space));
  if (model.add_dummy_prefix && legacy) {
    steps.push_back(regex_replace(("\\A" + space).c_str(), space + space));
  }
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

/// A regex that matches each of the pieces, the longest first.
std::string pattern_of(std::vector<std::string> pieces) {
  const auto length = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
  };
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](const std::string& a, const std::string& b) { return length(a) > length(b); });
  std::string pattern;
  for (const std::string& piece : pieces) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : piece) {
      if (std::string_view(R"(()[]{}?*+-|^$\.&~# )").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

Json backend_pre_tokenizer(const SentencePieceModel& model, const std::vector<VocabularyPiece>& pieces, bool legacy) {
  std::vector<std::string> user_defined;
  for (const VocabularyPiece& piece : pieces) {
    if (piece.type == PieceType::user_defined) user_defined.push_back(piece.text);
  }
  Json steps = Json::array();
  if (model.add_dummy_prefix) {
    steps.push_back({{"type", "Metaspace"},
                     {"replacement", std::string(kSpaceSymbol)},
                     {"prepend_scheme", legacy ? "always" : "first"},
                     {"split", false}});
  }
  if (!user_defined.empty()) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern_of(std::move(user_defined))}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  return steps.empty() ? Json() : Json{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

Json backend_decoder(const SentencePieceModel& model) {
  Json steps = {text_replace(kSpaceSymbol, " ")};
  if (model.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  if (model.byte_fallback || model.add_dummy_prefix) steps.push_back({{"type", "Fuse"}});
  if (model.add_dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

/// The pieces, of which the configuration may rename some.
std::vector<VocabularyPiece> renamed(const SentencePieceModel& model, const TokenizerFolder& folder) {
  std::vector<VocabularyPiece> pieces = model.pieces;
  PieceTable kept;
  std::vector<bool> has_name(pieces.size());
  const auto n = static_cast<std::int64_t>(pieces.size());
  for (const Json& token : folder.added) {
    const auto id = token["id"].get<std::int64_t>();
    if (id < n) has_name[static_cast<std::size_t>(id)] = true;
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!has_name[i]) kept.add(pieces[i].text, kept.size());
  }
  for (const Json& token : folder.added) {
    const auto id = token["id"].get<std::int64_t>();
    const auto text = token["content"].get<std::string>();
    if (id < n && kept.find(text) == kNoId) pieces[static_cast<std::size_t>(id)].text = text;
  }
  return pieces;
}

}  // namespace

std::string extra_id(std::int64_t i) { return fmt::format("<extra_id_{}>", i); }
std::string unk_piece(std::int64_t i) { return fmt::format("<unk_{}>", i); }

TokenizerDocument class_document(const SentencePieceModel& model, const TokenizerClass& rules,
                                 const JsonFields& config) {
  TokenizerDocument document;
  add_pieces(ordered(model, rules, config), rules.model == "Unigram", document);
  document.rest = Json::object();
  document.has_merges = rules.model == "BPE";
  if (document.has_merges) add_merges_by_id(model, document.pieces, document.merges);
  return document;
}

TokenizerDocument backend_document(const SentencePieceModel& model, const TokenizerFolder& folder) {
  const bool is_bpe = model.kind == SentencePieceModel::Kind::bpe;
  const bool legacy = JsonFields(folder.config, "the configuration", folder.config_path).boolean("legacy", true);
  const std::vector<VocabularyPiece> pieces = is_bpe ? renamed(model, folder) : model.pieces;
  std::vector<Scored> scored;
  bool has_user_defined = false;
  for (const VocabularyPiece& piece : pieces) {
    scored.emplace_back(piece.text, static_cast<double>(piece.score));
    has_user_defined |= piece.type == PieceType::user_defined;
  }
  TokenizerDocument document;
  add_pieces(scored, !is_bpe, document);
  Json json = {{"type", is_bpe ? "BPE" : "Unigram"}, {"vocab", nullptr}, {"byte_fallback", model.byte_fallback}};
  if (is_bpe) {
    document.has_merges = true;
    add_merges_by_score(pieces, document.merges);
    json["unk_token"] = pieces[static_cast<std::size_t>(model.unk)].text;
    json["fuse_unk"] = true;
    json["ignore_merges"] = has_user_defined;
  } else {
    json["unk_id"] = static_cast<std::uint64_t>(model.unk);
  }
  document.rest = {{"normalizer", backend_normalizer(model, legacy)},
                   {"pre_tokenizer", backend_pre_tokenizer(model, pieces, legacy)},
                   {"decoder", backend_decoder(model)},
                   {"model", std::move(json)}};
  return document;
}

}  // namespace vitrine
