// GBNF, the notation of llama.cpp's grammars. Source: ggml-org/llama.cpp, grammars/README.md, src/llama-grammar.cpp.
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "constrain/sources.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const Vocabulary& vocabulary) : text_(text), vocabulary_(vocabulary) {}

  Grammar parse() {
    if (!is_valid_utf8(text_)) throw BadInput("grammar", "expected UTF-8");
    skip_space(true);
    while (!at_end()) rule();
    for (const auto& [name, rule] : rules_) {
      if (grammar_.body(rule) < 0) throw BadInput("grammar", "rule {} is not defined", name);
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw BadInput("grammar", "expected a rule root");
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  BadInput bad(std::string_view what) const {
    std::size_t line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n' ? 1 : 0;
    return {"grammar", "line {}: {}", line, what};
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool skip(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip_space(bool with_lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (with_lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string rule_name() {
    const std::size_t begin = at_;
    while (is_name_character(peek())) ++at_;
    if (at_ == begin) throw bad(fmt::format("expected a rule's name, got \"{}\"", text_.substr(at_, 8)));
    return std::string(text_.substr(begin, at_ - begin));
  }
  RuleId rule_of(const std::string& name) {
    const auto [known, is_new] = rules_.try_emplace(name, -1);
    if (is_new) known->second = grammar_.add_rule(name);
    return known->second;
  }

  void rule() {
    const std::string name = rule_name();
    skip_space(false);
    if (!skip("::=")) throw bad("expected ::=");
    skip_space(true);
    const Expr body = alternatives(false);
    if (!at_end() && !skip("\r\n") && !skip("\n") && !skip("\r")) throw bad("expected a new line");
    skip_space(true);
    grammar_.define(rule_of(name), body);
  }

  Expr alternatives(bool nested) {
    if (++depth_ > kMaxNesting) throw OutOfCapacity("grammar", "expected at most {} levels of nesting", kMaxNesting);
    std::vector<Expr> all{sequence(nested)};
    while (skip("|")) {
      skip_space(true);
      all.push_back(sequence(nested));
    }
    --depth_;
    return grammar_.choice(std::move(all));
  }

  Expr sequence(bool nested) {
    std::vector<Expr> parts;
    while (const std::optional<Expr> part = item(nested)) {
      skip_space(nested);
      parts.push_back(repeated(*part, nested));
    }
    return grammar_.sequence(std::move(parts));
  }

  std::optional<Expr> item(bool nested) {
    const char c = peek();
    if (c == '"') return literal();
    if (c == '[') return character_class();
    if (c == '<' || c == '!') return token();
    if (c == '.') {
      ++at_;
      return grammar_.set(CharSet::all());
    }
    if (c == '(') {
      ++at_;
      skip_space(true);
      const Expr inside = alternatives(true);
      if (!skip(")")) throw bad("expected )");
      return inside;
    }
    if (is_name_character(c)) return grammar_.rule(rule_of(rule_name()));
    if (c == '*' || c == '+' || c == '?' || c == '{') throw bad(fmt::format("expected something before {}", c));
    (void)nested;
    return std::nullopt;
  }

  Expr repeated(Expr part, bool nested) {
    for (;;) {  // as in llama.cpp, several may follow one another
      if (skip("*")) {
        part = grammar_.repeat(part, 0, kUnlimited);
      } else if (skip("+")) {
        part = grammar_.repeat(part, 1, kUnlimited);
      } else if (skip("?")) {
        part = grammar_.optional(part);
      } else if (skip("{")) {
        part = counted(part);
      } else {
        return part;
      }
      skip_space(nested);
    }
  }

  Expr counted(Expr part) {
    skip_space(true);
    const std::int64_t min = peek() == ',' ? 0 : count();
    std::int64_t max = min;
    skip_space(true);
    if (skip(",")) {
      skip_space(true);
      max = peek() == '}' ? kUnlimited : count();
      skip_space(true);
    }
    if (!skip("}")) throw bad("expected }");
    if (max != kUnlimited && max < min) throw bad("a repetition whose bounds are out of order");
    return grammar_.repeat(part, min, max);
  }

  std::int64_t count() {
    const std::size_t begin = at_;
    std::int64_t n = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      n = n * 10 + (peek() - '0');
      if (n > kMaxCount) throw OutOfCapacity("grammar", "expected a repetition of at most {}", kMaxCount);
    }
    if (at_ == begin) throw bad("expected a count");
    return n;
  }

  std::uint32_t character() {
    if (at_end()) throw bad("the text ends inside a literal");
    if (peek() != '\\') {
      const std::size_t length = length_by_lead(peek());
      at_ += length;
      return code_point(text_.substr(at_ - length, length));
    }
    ++at_;
    const char c = peek();
    ++at_;
    switch (c) {
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<std::uint32_t>(c);
      default:
        throw bad(fmt::format("unknown escape \\{}", c));
    }
  }

  std::uint32_t hex(int n_digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++at_) {
      const char c = peek();
      const bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_letter && !(c >= '0' && c <= '9')) throw bad("expected a hexadecimal digit");
      value = value * 16 + static_cast<std::uint32_t>(is_letter ? (c | 0x20) - 'a' + 10 : c - '0');
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) throw bad("expected a character of Unicode");
    return value;
  }

  Expr literal() {
    ++at_;
    std::string text;
    while (!skip("\"")) append_code_point(character(), text);
    return grammar_.text(std::move(text));
  }

  Expr character_class() {
    ++at_;
    const bool is_negated = skip("^");
    std::vector<CharRange> all;
    while (!skip("]")) {
      const std::uint32_t first = character();
      std::uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = character();
        if (last < first) throw bad("a range whose ends are out of order");
      }
      const std::vector<CharRange> own = CharSet::range(first, last).ranges();
      all.insert(all.end(), own.begin(), own.end());
    }
    const CharSet set = CharSet::of_ranges(std::move(all));
    return grammar_.set(is_negated ? ~set : set);
  }

  /// <token>, <[id]>, and either after !.
  Expr token() {
    const bool is_negated = skip("!");
    const std::size_t end = text_.find('>', at_);
    if (peek() != '<' || end == std::string_view::npos) throw bad("expected <token>");
    const std::string_view whole = text_.substr(at_, end + 1 - at_), inside = whole.substr(1, whole.size() - 2);
    at_ = end + 1;
    std::int32_t id = -1;
    if (inside.starts_with("[") && inside.ends_with("]")) {
      std::int64_t value = 0;
      for (const char c : inside.substr(1, inside.size() - 2)) {
        if (c < '0' || c > '9' || value > vocabulary_.size()) throw bad(fmt::format("expected <[id]>, got {}", whole));
        value = value * 10 + (c - '0');
      }
      if (value >= vocabulary_.size())
        throw bad(fmt::format("{}: the vocabulary has {} ids", whole, vocabulary_.size()));
      id = static_cast<std::int32_t>(value);
    } else {
      id = vocabulary_.find_piece(whole);
      if (id < 0) throw bad(fmt::format("{} is no token of the vocabulary", whole));
    }
    return grammar_.token({{id}, is_negated});
  }

  std::string_view text_;
  const Vocabulary& vocabulary_;
  Grammar grammar_;
  std::map<std::string, RuleId> rules_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Grammar parse_gbnf(std::string_view text, const Vocabulary& vocabulary) { return GbnfParser(text, vocabulary).parse(); }

}  // namespace vitrine::constrain
