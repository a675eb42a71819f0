#include "tokenizer/tokenizer_writer.h"

#include <fmt/format.h>

#include <algorithm>
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

/// The parts of a tokenizer.json in which the tokenizers differ. `pre_tokenizer` and `decoder` are JSON.
struct Contents {
  std::vector<Token> specials;
  std::string bos;  // one of the special tokens, or ""
  std::string pre_tokenizer, decoder;
  std::vector<std::string> pieces;  // by id, without special tokens
  std::size_t first_piece = 0;      // the id of the first piece
  std::vector<std::pair<std::string, std::string>> merges;
};

/// A template that adds `bos` before every text.
std::string post_processor(const Contents& w) {
  if (w.bos.empty()) return "null";
  const auto found =
      std::find_if(w.specials.begin(), w.specials.end(), [&](const Token& t) { return t.text == w.bos; });
  if (found == w.specials.end()) throw BadInput("bos", "expected one of the special tokens, got \"{}\"", w.bos);
  const std::string bos = quoted(w.bos);
  const auto sequence = [&](const char* name, int type) {
    return fmt::format(
        "{{\"SpecialToken\": {{\"id\": {}, \"type_id\": {}}}}}, {{\"Sequence\": {{\"id\": \"{}\", \"type_id\": {}}}}}",
        bos, type, name, type);
  };
  return fmt::format(
      "{{\n    \"type\": \"TemplateProcessing\",\n    \"single\": [{}],\n    \"pair\": [{}, {}],\n"
      "    \"special_tokens\": {{{}: {{\"id\": {}, \"ids\": [{}], \"tokens\": [{}]}}}}\n  }}",
      sequence("A", 0), sequence("A", 0), sequence("B", 1), bos, bos, found->id, bos);
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
      "{}],\n  \"normalizer\": null,\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n"
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {{",
      w.specials.empty() ? "" : "\n  ", w.pre_tokenizer, post_processor(w), w.decoder);
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

/// Special tokens with the ids after those of the pieces.
std::vector<Token> tokens_after(const std::vector<std::string>& pieces, const std::vector<std::string>& specials) {
  std::vector<Token> tokens;
  for (const std::string& text : specials) {
    if (text.empty() || !is_valid_utf8(text)) throw BadInput("special tokens", "expected texts, got \"{}\"", text);
    const auto is_it = [&](const Token& token) { return token.text == text; };
    if (std::any_of(tokens.begin(), tokens.end(), is_it))
      throw BadInput("special tokens", "\"{}\" appears twice", text);
    if (std::find(pieces.begin(), pieces.end(), text) != pieces.end()) {
      throw BadInput("special tokens", "expected texts that are not pieces, got \"{}\"", text);
    }
    tokens.push_back({text, pieces.size() + tokens.size()});
  }
  return tokens;
}

}  // namespace

std::string bpe_json(const TrainedBpe& bpe, const std::string& pattern, const std::string& bos) {
  Contents w;
  w.bos = bos;
  for (std::size_t id = 0; id < bpe.n_special; ++id) w.specials.push_back({bpe.pieces[id], id});
  w.first_piece = bpe.n_special;
  w.pre_tokenizer = byte_level_step(pattern.empty());
  if (!pattern.empty()) {
    w.pre_tokenizer = fmt::format(
        "{{\"type\": \"Sequence\", \"pretokenizers\": [\n    {{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, "
        "\"behavior\": \"Isolated\", \"invert\": false}},\n    {}]}}",
        quoted(pattern), w.pre_tokenizer);
  }
  w.decoder = byte_level_step(true);
  const auto piece = [&](std::int32_t id) { return byte_level(bpe.pieces[static_cast<std::size_t>(id)]); };
  for (std::size_t id = bpe.n_special; id < bpe.pieces.size(); ++id) w.pieces.push_back(byte_level(bpe.pieces[id]));
  for (const Bpe::Pair& pair : bpe.merges) w.merges.emplace_back(piece(pair.left), piece(pair.right));
  return to_json(w);
}

std::string characters_json(const std::vector<std::uint32_t>& characters, const std::vector<std::string>& specials,
                            const std::string& bos) {
  Contents w;
  w.bos = bos;
  w.pre_tokenizer = "null";
  w.decoder = "{\"type\": \"Fuse\"}";
  for (const std::uint32_t c : characters) append_code_point(c, w.pieces.emplace_back());
  w.specials = tokens_after(w.pieces, specials);
  return to_json(w);
}

std::string bytes_json(const std::vector<std::string>& specials, const std::string& bos) {
  Contents w;
  w.bos = bos;
  w.pre_tokenizer = byte_level_step(false);
  w.decoder = byte_level_step(false);
  for (int byte = 0; byte < 256; ++byte) w.pieces.push_back(byte_level(std::string(1, static_cast<char>(byte))));
  w.specials = tokens_after(w.pieces, specials);
  return to_json(w);
}

}  // namespace vitrine
