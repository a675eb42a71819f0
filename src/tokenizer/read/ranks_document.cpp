#include "tokenizer/read/ranks_document.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/read/tiktoken.h"
#include "tokenizer/split.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 20;

/// All pairs of pieces that form a piece, in the order of its rank; of one piece, by their ranks.
void add_merges(const std::vector<std::string>& pieces, MergeList& merges) {
  std::unordered_map<std::string_view, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < pieces.size(); ++rank) rank_of.emplace(pieces[rank], rank);
  for (const std::string_view piece : pieces) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t i = 1; i < piece.size(); ++i) {
      const auto left = rank_of.find(piece.substr(0, i)), right = rank_of.find(piece.substr(i));
      if (left != rank_of.end() && right != rank_of.end()) pairs.emplace_back(left->second, right->second);
    }
    std::sort(pairs.begin(), pairs.end());
    for (const auto& [left, right] : pairs) merges.add(byte_level(pieces[left]), byte_level(pieces[right]));
  }
}

Json special_token(std::int64_t id, const std::string& text) {
  return {{"id", static_cast<std::uint64_t>(id)},
          {"content", text},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", true}};
}

/// The document of pieces whose first has the id `first_id`.
TokenizerDocument document_of(const std::vector<std::string>& pieces, std::int64_t first_id, std::string_view pattern,
                              Json added_tokens, std::string_view where) {
  TokenizerDocument document;
  document.has_vocab = document.has_merges = true;
  for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
    const auto id = static_cast<std::int32_t>(first_id + static_cast<std::int64_t>(rank));
    if (document.pieces.add(byte_level(pieces[rank]), id)) continue;
    throw BadCheckpoint(where, "the piece of rank {} appears twice", rank);
  }
  add_merges(pieces, document.merges);
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  document.rest = {{"added_tokens", std::move(added_tokens)},
                   {"normalizer", nullptr},
                   {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
                   {"post_processor", nullptr},
                   {"decoder", bytes},
                   {"model", {{"type", "BPE"}, {"vocab", nullptr}, {"merges", nullptr}, {"ignore_merges", true}}}};
  return document;
}

/// The special tokens of files that do not list them.
std::vector<std::string> earlier_special_tokens() {
  return {"<unk>",
          "<s>",
          "</s>",
          "[INST]",
          "[/INST]",
          "[AVAILABLE_TOOLS]",
          "[/AVAILABLE_TOOLS]",
          "[TOOL_RESULTS]",
          "[/TOOL_RESULTS]",
          "[TOOL_CALLS]",
          "[IMG]",
          "<pad>",
          "[IMG_BREAK]",
          "[IMG_END]",
          "[PREFIX]",
          "[MIDDLE]",
          "[SUFFIX]",
          "[SYSTEM_PROMPT]",
          "[/SYSTEM_PROMPT]",
          "[TOOL_CONTENT]"};
}

/// The texts of the special tokens, whose ids are their numbers.
std::vector<std::string> special_tokens_of(const Json& file, std::size_t count, std::string_view path) {
  std::vector<std::string> texts(count);
  const Json listed = file.value("special_tokens", Json());
  if (listed.is_array()) {
    for (const Json& token : listed) {
      const JsonFields fields(token, "special_tokens", path);
      const auto id = static_cast<std::size_t>(fields.integer("rank"));
      if (id < count) texts[id] = fields.string("token_str");
    }
  } else {
    const std::vector<std::string> earlier = earlier_special_tokens();
    std::copy_n(earlier.begin(), std::min(count, earlier.size()), texts.begin());
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (texts[i].empty()) texts[i] = "<SPECIAL_" + std::to_string(i) + ">";
  }
  return texts;
}

}  // namespace

TokenizerDocument parse_tekken(std::string_view file, std::string_view path) {
  const Json json = parse_json(file, path);
  const JsonFields fields(json, "tekken.json", path);
  const JsonFields config(fields.at("config"), "config", path);
  const std::int64_t n_vocab = config.integer("default_vocab_size");
  const std::int64_t n_special = config.integer("default_num_special_tokens");
  const Json& vocab = fields.array("vocab");
  const std::int64_t n_pieces = n_vocab - n_special;
  if (n_vocab > kMaxTokens || n_pieces < 256 || n_pieces > std::ssize(vocab)) {
    throw BadCheckpoint(path,
                        "expected from 256 to {} pieces (default_vocab_size − default_num_special_tokens), got {}",
                        vocab.size(), n_pieces);
  }
  std::vector<std::string> pieces;
  for (std::int64_t i = 0; i < n_pieces; ++i) {
    const JsonFields entry(vocab[static_cast<std::size_t>(i)], "vocab", path);
    const auto piece = decode_padded_base64(entry.string("token_bytes"));
    if (!piece || piece->empty() || entry.integer("rank") != i) {
      throw BadCheckpoint(path, "vocab: expected rank {} with token_bytes in base64, got something else", i);
    }
    pieces.push_back(*piece);
  }
  Json added = Json::array();
  const std::vector<std::string> special = special_tokens_of(json, static_cast<std::size_t>(n_special), path);
  for (std::size_t i = 0; i < special.size(); ++i)
    added.push_back(special_token(static_cast<std::int64_t>(i), special[i]));
  TokenizerDocument document = document_of(pieces, n_special, config.string("pattern"), std::move(added), path);
  const auto bos = std::find(special.begin(), special.end(), "<s>");
  if (bos != special.end()) {
    const Json part = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0U}}}};
    const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0U}}}},
               other = {{"Sequence", {{"id", "B"}, {"type_id", 1U}}}};
    document.rest["post_processor"] = {{"type", "TemplateProcessing"},
                                       {"single", Json::array({part, text})},
                                       {"pair", Json::array({part, text, part, other})},
                                       {"special_tokens",
                                        {{"<s>",
                                          {{"id", "<s>"},
                                           {"ids", Json::array({static_cast<std::uint64_t>(bos - special.begin())})},
                                           {"tokens", Json::array({"<s>"})}}}}}};
  }
  return document;
}

TokenizerDocument parse_kimi(std::string_view ranks, std::string_view path, const Json& config,
                             std::string_view config_path) {
  constexpr std::int32_t kReserved = 256;
  const PieceTable by_rank = parse_ranks(ranks, path);
  std::vector<std::string> pieces;
  for (std::int32_t rank = 0; rank < by_rank.size(); ++rank) pieces.emplace_back(by_rank.piece(rank));
  if (by_rank.n_pieces() != by_rank.size()) throw BadCheckpoint(path, "expected all ranks below {}", by_rank.size());
  const JsonFields fields(config, "the configuration", config_path);
  const Json named =
      fields.find("added_tokens_decoder") != nullptr ? fields.at("added_tokens_decoder") : Json::object();
  Json added = Json::array();
  for (std::int32_t id = by_rank.size(); id < by_rank.size() + kReserved; ++id) {
    const auto token = named.find(std::to_string(id));
    const bool is_named = token != named.end();
    added.push_back(special_token(id, is_named
                                          ? JsonFields(*token, "added_tokens_decoder", config_path).string("content")
                                          : "<|reserved_token_" + std::to_string(id) + "|>"));
  }
  const std::string_view pattern = gguf_pre_tokenizer("kimi-k2", path).patterns.front();
  return document_of(pieces, 0, pattern, std::move(added), path);
}

}  // namespace vitrine
