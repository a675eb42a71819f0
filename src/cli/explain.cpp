#include "cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tokenizer/utf8.h"

namespace vitrine::cli {
namespace {

using Rule = Explanation::Word::Rule;

// The limits of what a table shows.
constexpr std::size_t kShownBytes = 160;    // of a text
constexpr std::size_t kShownWords = 24;     // of a pre-tokenizer; ids of a word
constexpr std::size_t kShownIds = 1000;     // in the result
constexpr std::size_t kShownNeighbors = 8;  // on either side of a merge

/// Whether a character is invisible on a terminal, or controls it.
bool is_hidden(std::uint32_t c) {
  return c < ' ' || (c >= 0x7F && c <= 0xA0) || c == 0xAD || c == 0x61C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202F) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

/// Calls `valid(character)` for each character and `broken(byte)` for each byte that is not part of one.
template <class Valid, class Broken>
void for_each_character(std::string_view text, Valid&& valid, Broken&& broken) {
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(character_length(text), 1);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 1 && byte >= 0x80) {
      broken(byte);
    } else {
      valid(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
}

std::string visible(std::string_view text) {
  std::string out;
  const auto add = [&](std::string_view character) {
    const std::uint32_t c = code_point(character);
    if (c == ' ') {
      out += "\u2423";
    } else if (c == '\n' || c == '\t' || c == '\r' || c == '\\') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : "\\\\";
    } else if (is_hidden(c)) {
      out += c < 0x80 ? fmt::format("\\x{:02X}", c) : fmt::format("\\u{{{:X}}}", c);
    } else {
      out += character;
    }
  };
  const bool is_long = text.size() > kShownBytes;
  std::size_t end = std::min(text.size(), kShownBytes);
  while (is_long && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  for_each_character(text.substr(0, end), add, [&](unsigned byte) { out += fmt::format("\\x{:02X}", byte); });
  return is_long ? out + "…" : out;
}

std::string visible(const Explanation::Excerpt& e) {
  return e.n_bytes <= kShownBytes ? visible(e.text) : fmt::format("{} ({} bytes)", visible(e.text), e.n_bytes);
}

std::string row(std::string_view label, std::string_view text) { return fmt::format("{:<16}{}\n", label, text); }

std::string ids_row(std::string_view label, const std::vector<std::int32_t>& ids, const Tokenizer& tokenizer) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ids.size(), kShownWords); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : "   ", ids[i], visible(tokenizer.piece(ids[i])));
  }
  if (ids.size() > kShownWords) text += fmt::format("   … ({} ids)", ids.size());
  return row(label, text);
}

/// The symbols of a word during merging: a linked list from which merged symbols are removed.
class Symbols {
 public:
  explicit Symbols(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::size_t i = 0; i <= texts_.size(); ++i) {
      next_.push_back(i + 1);
      previous_.push_back(i - 1);
    }
  }
  bool apply(const Explanation::Merge& m) {
    if (m.place >= texts_.size() || next_[m.place] >= texts_.size()) return false;
    next_[m.place] = next_[next_[m.place]];
    previous_[next_[m.place]] = m.place;
    texts_[m.place] = m.result;
    return true;
  }
  /// The symbols around a place.
  std::string around(std::size_t place) const {
    std::size_t first = place;
    for (std::size_t n = 0; n < kShownNeighbors && first != 0; ++n) first = previous_[first];
    std::string out = first == 0 ? "" : "… ";
    for (std::size_t n = 0, i = first; i < texts_.size(); i = next_[i], ++n) {
      if (n > 2 * kShownNeighbors) return out + " …";
      out.append(i == first ? "" : " ").append(visible(texts_[i]));
    }
    return out;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<std::size_t> next_, previous_;
};

std::string merges_table(const Explanation::Word& word) {
  Symbols symbols(word.symbols);
  std::string table;
  if (!word.symbols.empty()) table += row("  symbols", symbols.around(0));
  for (const Explanation::Merge& m : word.merges) {
    if (!symbols.apply(m)) break;
    const std::string order = word.rule == Rule::merges_by_rank ? fmt::format("  rank {:.0f}", m.order)
                                                                : fmt::format("  score {:.6g}", m.order);
    const std::string merge = fmt::format("{} + {} → {}", visible(m.left), visible(m.right), visible(m.result));
    table += row(order, fmt::format("{:<32}  {}", merge, symbols.around(m.place)));
  }
  return table;
}

std::string candidates_table(const Explanation::Word& word, const Tokenizer& tokenizer) {
  std::string table;
  const bool is_scored = word.rule == Rule::best_sum;
  for (const Explanation::Candidate& c : word.candidates) {
    const std::string where = fmt::format("{} bytes {}-{}", c.chosen ? "*" : " ", c.begin, c.end);
    const std::string piece = visible(tokenizer.piece(c.id));
    const std::string entry = is_scored
                                  ? fmt::format("{:>7} {:<24} score {:<12.6g} sum {:.6g}", c.id, piece, c.score, c.best)
                                  : fmt::format("{:>7} {}", c.id, piece);
    table += row(where, entry);
  }
  return table;
}

struct TableRow {
  const Tokenizer& tokenizer;

  std::string operator()(const Explanation::Part& part) const { return row("text", visible(part.text)); }
  std::string operator()(const Explanation::Token& token) const {
    const bool in_text = token.from == Explanation::Token::From::text;
    return row("token", fmt::format("{} {}   ({})", token.id, visible(tokenizer.piece(token.id)),
                                    in_text ? "from the text" : "added"));
  }
  std::string operator()(const Explanation::Normalized& normalized) const {
    return row("normalized", fmt::format("{}   ({})", visible(normalized.text), normalized.by));
  }
  std::string operator()(const Explanation::Cut& cut) const {
    std::string words;
    for (std::size_t i = 0; i < std::min(cut.words.size(), kShownWords); ++i) {
      words.append(i == 0 ? "" : " | ").append(visible(cut.words[i]));
    }
    if (cut.words.size() > kShownWords) words += fmt::format(" | … {} words", cut.words.size());
    return row("cut", fmt::format("{}   ({})", words, cut.by));
  }
  std::string operator()(const Explanation::Word& word) const {
    return row("word", visible(word.text)) + merges_table(word) + candidates_table(word, tokenizer) +
           ids_row("  ids", word.ids, tokenizer);
  }
};

/// Writes bytes that are not UTF-8, which JSON cannot contain, as \xNN.
std::string in_utf8(std::string_view text) {
  std::string out;
  for_each_character(
      text, [&](std::string_view character) { out += character; },
      [&](unsigned byte) { out += fmt::format("\\x{:02X}", byte); });
  return out;
}

Json texts_json(const std::vector<std::string>& texts) {
  Json all = Json::array();
  for (const std::string& text : texts) all.push_back(in_utf8(text));
  return all;
}

const char* name_of(Rule rule) {
  static constexpr const char* kNames[] = {"merges by rank", "merges by score", "best sum", "longest first", "whole"};
  return kNames[static_cast<std::size_t>(rule)];
}

struct StepJson {
  const Tokenizer& tokenizer;

  static Json step(const char* name, const Explanation::Excerpt& e) {
    return {{"step", name}, {"text", in_utf8(e.text)}, {"bytes", e.n_bytes}};
  }
  Json operator()(const Explanation::Part& part) const { return step("text", part.text); }
  Json operator()(const Explanation::Token& token) const {
    const bool in_text = token.from == Explanation::Token::From::text;
    return {{"step", "token"},
            {"id", token.id},
            {"piece", in_utf8(tokenizer.piece(token.id))},
            {"from", in_text ? "text" : "policy"}};
  }
  Json operator()(const Explanation::Normalized& normalized) const {
    Json object = step("normalized", normalized.text);
    object["by"] = normalized.by;
    return object;
  }
  Json operator()(const Explanation::Cut& cut) const {
    Json words = Json::array();
    for (const Explanation::Excerpt& word : cut.words) words.push_back(in_utf8(word.text));
    return {{"step", "cut"}, {"by", cut.by}, {"words", words}};
  }
  Json operator()(const Explanation::Word& word) const {
    Json object = step("word", word.text);
    object["rule"] = name_of(word.rule);
    object["ids"] = word.ids;
    if (!word.symbols.empty()) object["symbols"] = texts_json(word.symbols);
    const char* const order = word.rule == Rule::merges_by_rank ? "rank" : "score";
    for (const Explanation::Merge& m : word.merges) {
      object["merges"].push_back({{order, m.order},
                                  {"place", m.place},
                                  {"left", in_utf8(m.left)},
                                  {"right", in_utf8(m.right)},
                                  {"result", in_utf8(m.result)}});
    }
    for (const Explanation::Candidate& c : word.candidates) {
      Json entry = {{"begin", c.begin},
                    {"end", c.end},
                    {"id", c.id},
                    {"piece", in_utf8(tokenizer.piece(c.id))},
                    {"chosen", c.chosen}};
      if (word.rule == Rule::best_sum) {
        entry["score"] = c.score;
        entry["sum"] = c.best;
      }
      object["candidates"].push_back(std::move(entry));
    }
    return object;
  }
};

}  // namespace

std::string explanation_table(const Explanation& explanation, const Tokenizer& tokenizer) {
  std::string table;
  for (const Explanation::Step& step : explanation.steps) table += std::visit(TableRow{tokenizer}, step);
  if (explanation.is_cut) table += row("…", "too many steps; the rest are omitted");
  const std::vector<std::int32_t>& ids = explanation.ids;
  for (std::size_t i = 0; i < std::min(ids.size(), kShownIds); ++i) {
    table += row(i == 0 ? "ids" : "", fmt::format("{:>7} {}", ids[i], visible(tokenizer.piece(ids[i]))));
  }
  if (ids.size() > kShownIds) table += row("…", fmt::format("{} ids; all are printed without --explain", ids.size()));
  return table;
}

Json explanation_json(const Explanation& explanation, const Tokenizer& tokenizer) {
  Json steps = Json::array(), pieces = Json::array();
  for (const Explanation::Step& step : explanation.steps) steps.push_back(std::visit(StepJson{tokenizer}, step));
  for (const std::int32_t id : explanation.ids) pieces.push_back(in_utf8(tokenizer.piece(id)));
  return {{"ids", explanation.ids}, {"pieces", pieces}, {"steps", steps}, {"is_cut", explanation.is_cut}};
}

}  // namespace vitrine::cli
