#include "tokenizer/read/tokenizer_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/split.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

std::string quoted(const std::string& text) { return Json(text).dump(); }

struct Token {
  std::string text;
  std::size_t id;
};

/// The parts of a tokenizer.json in which the tokenizers differ. Those with defaults are JSON.
struct Contents {
  std::vector<Token> specials;
  TokenRoles roles;
  std::string normalizer = "null", pre_tokenizer = "null", decoder = "null";
  std::string model;                // the fields of the model before its vocabulary
  std::vector<std::string> pieces;  // by id, without special tokens
  std::size_t first_piece = 0;      // the id of the first piece
  bool has_merges = true;
  std::vector<std::pair<std::string, std::string>> merges;
};

void check_role(const Contents& w, const char* role, const std::string& text) {
  const auto is_it = [&](const Token& t) { return t.text == text; };
  if (text.empty() || std::any_of(w.specials.begin(), w.specials.end(), is_it)) return;
  throw BadInput(role, "expected one of the special tokens, got \"{}\"", text);
}

/// A template that adds BOS before every text and EOS after it.
std::string post_processor(const Contents& w) {
  check_role(w, "bos", w.roles.bos);
  check_role(w, "eos", w.roles.eos);
  check_role(w, "unk", w.roles.unk);
  if (w.roles.bos.empty() && w.roles.eos.empty()) return "null";
  const auto sequence = [&](const char* name, int type) {
    std::vector<std::string> parts = {fmt::format("{{\"Sequence\": {{\"id\": \"{}\", \"type_id\": {}}}}}", name, type)};
    const auto special = [&](const std::string& text) {
      return fmt::format("{{\"SpecialToken\": {{\"id\": {}, \"type_id\": {}}}}}", quoted(text), type);
    };
    if (!w.roles.bos.empty()) parts.insert(parts.begin(), special(w.roles.bos));
    if (!w.roles.eos.empty()) parts.push_back(special(w.roles.eos));
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  std::vector<std::string> tokens;
  for (const Token& token : w.specials) {
    if (token.text != w.roles.bos && token.text != w.roles.eos) continue;
    const std::string text = quoted(token.text);
    tokens.push_back(fmt::format("{}: {{\"id\": {}, \"ids\": [{}], \"tokens\": [{}]}}", text, text, token.id, text));
  }
  return fmt::format(
      "{{\n    \"type\": \"TemplateProcessing\",\n    \"single\": [{}],\n    \"pair\": [{}, {}],\n"
      "    \"special_tokens\": {{{}}}\n  }}",
      sequence("A", 0), sequence("A", 0), sequence("B", 1), fmt::join(tokens, ", "));
}

std::string bpe_model(const std::string& unk) {
  return fmt::format(
      "\"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": false",
      unk.empty() ? "null" : quoted(unk));
}

/// The file, with the keys in the order in which `tokenizers` writes them.
std::string to_json(const Contents& w) {
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
  const char* comma = "";
  for (const Token& token : w.specials) {
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}}",
        std::exchange(comma, ","), token.id, quoted(token.text));
  }
  out += fmt::format(
      "{}],\n  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n"
      "  \"model\": {{\n    {},\n    \"vocab\": {{",
      w.specials.empty() ? "" : "\n  ", w.normalizer, w.pre_tokenizer, post_processor(w), w.decoder, w.model);
  comma = "";
  const auto add = [&](const std::string& piece, std::size_t id) {
    out += fmt::format("{}\n      {}: {}", std::exchange(comma, ","), quoted(piece), id);
  };
  const bool specials_first = w.first_piece > 0;
  const auto add_specials = [&] {
    for (const Token& token : w.specials) add(token.text, token.id);
  };
  if (specials_first) add_specials();
  for (std::size_t i = 0; i < w.pieces.size(); ++i) add(w.pieces[i], w.first_piece + i);
  if (!specials_first) add_specials();
  if (!w.has_merges) return out + "\n    }\n  }\n}\n";
  out += "\n    },\n    \"merges\": [";
  comma = "";
  for (const auto& [left, right] : w.merges) {
    out += fmt::format("{}\n      [{}, {}]", std::exchange(comma, ","), quoted(left), quoted(right));
  }
  return out + (w.merges.empty() ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n");
}

std::string byte_level_step(bool use_regex) {
  return fmt::format(
      "{{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": {}}}", use_regex);
}

/// Special tokens with the ids after those of the pieces, or before them.
void add_special_tokens(const std::vector<std::string>& specials, bool first, Contents& w) {
  const std::unordered_set<std::string_view> pieces(w.pieces.begin(), w.pieces.end());
  for (const std::string& text : specials) {
    if (text.empty() || !is_valid_utf8(text)) throw BadInput("special tokens", "expected texts, got \"{}\"", text);
    const auto is_it = [&](const Token& token) { return token.text == text; };
    if (std::any_of(w.specials.begin(), w.specials.end(), is_it))
      throw BadInput("special tokens", "\"{}\" appears twice", text);
    if (pieces.contains(text)) {
      throw BadInput("special tokens", "expected texts that are not pieces, got \"{}\"", text);
    }
    w.specials.push_back({text, w.specials.size() + (first ? 0 : w.pieces.size())});
  }
  if (first) w.first_piece = specials.size();
}

/// The special tokens of a trained vocabulary, which come first. Its pieces are spelled by `spell`.
template <class Spell>
void add_trained(const TrainedBpe& bpe, Spell&& spell, Contents& w) {
  for (std::size_t id = 0; id < bpe.n_special; ++id) w.specials.push_back({bpe.pieces[id], id});
  w.first_piece = bpe.n_special;
  for (std::size_t id = bpe.n_special; id < bpe.pieces.size(); ++id) w.pieces.push_back(spell(bpe.pieces[id]));
}

}  // namespace

std::string bpe_json(const TrainedBpe& bpe, const std::string& pattern, const TokenRoles& roles) {
  Contents w;
  w.roles = roles;
  w.model = bpe_model("");
  w.pre_tokenizer = byte_level_step(pattern.empty());
  if (!pattern.empty()) {
    w.pre_tokenizer = fmt::format(
        "{{\"type\": \"Sequence\", \"pretokenizers\": [\n    {{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, "
        "\"behavior\": \"Isolated\", \"invert\": false}},\n    {}]}}",
        quoted(pattern), w.pre_tokenizer);
  }
  w.decoder = byte_level_step(true);
  const auto piece = [&](std::int32_t id) { return byte_level(bpe.pieces[static_cast<std::size_t>(id)]); };
  add_trained(
      bpe, [](const std::string& bytes) { return byte_level(bytes); }, w);
  for (const Bpe::Pair& pair : bpe.merges) w.merges.emplace_back(piece(pair.left), piece(pair.right));
  return to_json(w);
}

Json wordpiece_normalizer() {
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", true},
          {"strip_accents", nullptr},
          {"lowercase", false}};
}
Json wordpiece_pre_tokenizer() { return {{"type", "BertPreTokenizer"}}; }
Json words_pre_tokenizer() { return {{"type", "WhitespaceSplit"}}; }

std::string wordpiece_json(const TrainedBpe& bpe, const TokenRoles& roles) {
  Contents w;
  w.roles = roles;
  w.normalizer = wordpiece_normalizer().dump();
  w.pre_tokenizer = wordpiece_pre_tokenizer().dump();
  w.decoder = R"({"type": "WordPiece", "prefix": "##", "cleanup": true})";
  w.model = fmt::format(
      "\"type\": \"WordPiece\",\n    \"unk_token\": {},\n    \"continuing_subword_prefix\": \"##\",\n"
      "    \"max_input_chars_per_word\": 100",
      quoted(roles.unk));
  w.has_merges = false;
  add_trained(
      bpe, [](const std::string& text) { return text; }, w);
  return to_json(w);
}

std::string words_json(const std::vector<std::string>& words, const std::vector<std::string>& specials,
                       const TokenRoles& roles) {
  Contents w;
  w.roles = roles;
  w.pre_tokenizer = words_pre_tokenizer().dump();
  w.model = fmt::format("\"type\": \"WordLevel\",\n    \"unk_token\": {}", quoted(roles.unk));
  w.has_merges = false;
  w.pieces = words;
  add_special_tokens(specials, true, w);
  return to_json(w);
}

std::string characters_json(const std::vector<std::uint32_t>& characters, const std::vector<std::string>& specials,
                            const TokenRoles& roles, bool specials_first) {
  Contents w;
  w.roles = roles;
  w.model = bpe_model(roles.unk);
  w.decoder = "{\"type\": \"Fuse\"}";
  for (const std::uint32_t c : characters) append_code_point(c, w.pieces.emplace_back());
  add_special_tokens(specials, specials_first, w);
  return to_json(w);
}

std::string bytes_json(const std::vector<std::string>& specials, const TokenRoles& roles) {
  Contents w;
  w.roles = roles;
  w.model = bpe_model("");
  w.pre_tokenizer = byte_level_step(false);
  w.decoder = byte_level_step(false);
  for (int byte = 0; byte < 256; ++byte) w.pieces.push_back(byte_level(std::string(1, static_cast<char>(byte))));
  add_special_tokens(specials, false, w);
  return to_json(w);
}

}  // namespace vitrine
