// Source: ECMA-262, 22.2.1 (Patterns). Escapes of punctuation that needs none are accepted as well.
#include "constrain/regex.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "constrain/anchors.h"
#include "constrain/sources.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

class RegexParser {
 public:
  RegexParser(Grammar& grammar, std::string_view regex, std::string_view where)
      : grammar_(grammar), text_(regex), where_(where) {}

  Expr parse() {
    if (!is_valid_utf8(text_)) throw BadInput(where_, "expected UTF-8 in the regex");
    const Expr all = disjunction();
    if (at_ < text_.size()) throw bad("unmatched )");
    return all;
  }

 private:
  BadInput bad(std::string_view what) const { return {where_, "not a regex at byte {}: {}", at_, what}; }
  Unsupported refuse(std::string_view what) const {
    return {where_, "{} is not supported in a regex (byte {})", what, at_};
  }

  bool at_end() const { return at_ >= text_.size(); }
  bool next_is(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool skip(std::string_view word) {
    if (!next_is(word)) return false;
    at_ += word.size();
    return true;
  }
  std::uint32_t take_character() {
    const std::size_t length = length_by_lead(text_[at_]);
    const std::uint32_t c = code_point(text_.substr(at_, length));
    at_ += length;
    return c;
  }

  Expr disjunction() {
    if (++depth_ > kMaxNesting) throw OutOfCapacity(where_, "expected at most {} levels of nesting", kMaxNesting);
    std::vector<Expr> alternatives;
    do {
      std::vector<Expr> terms;
      while (!at_end() && !next_is("|") && !next_is(")")) terms.push_back(term());
      alternatives.push_back(grammar_.sequence(std::move(terms)));
    } while (skip("|"));
    --depth_;
    return grammar_.choice(std::move(alternatives));
  }

  Expr term() {
    if (skip("^")) return grammar_.start();
    if (skip("$")) return grammar_.end();
    if (next_is("\\b") || next_is("\\B")) throw refuse("a word boundary");
    for (const std::string_view look : {"(?=", "(?!", "(?<=", "(?<!"}) {
      if (next_is(look)) throw refuse("lookaround");
    }
    return quantified(atom());
  }

  Expr atom() {
    if (skip("(")) return group();
    if (skip("[")) return grammar_.set(character_class());
    if (skip(".")) return grammar_.set(~(CharSet::of_any("\n\r") | CharSet::range(0x2028, 0x2029)));
    if (skip("\\")) return grammar_.set(escape(false));
    for (const char c : {'*', '+', '?', '{', '}', ']'}) {
      if (text_[at_] == c) throw bad(fmt::format("unexpected {}", c));
    }
    return grammar_.set(CharSet::of(take_character()));
  }

  Expr group() {
    if (skip("?<")) {
      const std::size_t end = text_.find('>', at_);
      if (end == std::string_view::npos || end == at_) throw bad("expected a group's name");
      at_ = end + 1;
    } else if (skip("?")) {
      if (!skip(":")) throw refuse("a group with flags");
    }
    const Expr inside = disjunction();
    if (!skip(")")) throw bad("expected )");
    return inside;
  }

  Expr quantified(Expr part) {
    std::int64_t min = 1, max = 1;
    if (skip("*")) {
      min = 0, max = kUnlimited;
    } else if (skip("+")) {
      max = kUnlimited;
    } else if (skip("?")) {
      min = 0;
    } else if (skip("{")) {
      min = max = count();
      if (skip(",")) max = next_is("}") ? kUnlimited : count();
      if (!skip("}")) throw bad("expected }");
      if (max != kUnlimited && max < min) throw bad("a repetition whose bounds are out of order");
    } else {
      return part;
    }
    skip("?");  // lazy: the texts are the same
    return grammar_.repeat(part, min, max);
  }

  std::int64_t count() {
    const std::size_t begin = at_;
    std::int64_t n = 0;
    for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      n = n * 10 + (text_[at_] - '0');
      if (n > kMaxCount) throw OutOfCapacity(where_, "expected a repetition of at most {}", kMaxCount);
    }
    if (at_ == begin) throw bad("expected a count");
    return n;
  }

  /// What follows a backslash, as a set.
  CharSet escape(bool in_class) {
    if (at_end()) throw bad("it ends with a backslash");
    const std::uint32_t c = take_character();
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return ~digits();
      case 'w':
        return word_characters();
      case 'W':
        return ~word_characters();
      case 's':
        return white_space();
      case 'S':
        return ~white_space();
      case 'p':
        return property();
      case 'P':
        return ~property();
      default:
        return CharSet::of(escaped_character(c, in_class));
    }
  }

  std::uint32_t escaped_character(std::uint32_t c, bool in_class) {
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case 'x':
        return hex(2);
      case 'u':
        return unicode_escape();
      case 'c': {
        const char letter = at_end() ? '\0' : text_[at_];
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
          throw bad("expected \\c and a letter");
        ++at_;
        return static_cast<std::uint32_t>(letter) % 32;
      }
      case '0':
        if (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') throw bad("an octal escape");
        return 0;
      default:
        break;
    }
    if (c == 'b' && in_class) return '\b';
    if ((c >= '1' && c <= '9') || c == 'k') throw refuse("a backreference");
    if (c >= 0x80 || word_characters().contains(c)) throw bad("an escape of a letter that has no meaning");
    return c;
  }

  std::uint32_t hex(int n_digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++at_) {
      const char c = at_end() ? '\0' : text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) throw bad("expected a hexadecimal digit");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    return value;
  }

  std::uint32_t unicode_escape() {
    if (skip("{")) {
      const std::size_t end = text_.find('}', at_);
      if (end == std::string_view::npos || end == at_ || end - at_ > 8) throw bad("expected \\u{…}");
      const std::uint32_t value = hex(static_cast<int>(end - at_));
      ++at_;
      if (value > 0x10FFFF) throw bad("a character beyond U+10FFFF");
      return value;
    }
    const std::uint32_t high = hex(4);
    if (high >= 0xD800 && high < 0xDC00 && skip("\\u")) {
      const std::uint32_t low = hex(4);
      if (low < 0xDC00 || low >= 0xE000) throw bad("a surrogate without its other half");
      return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    return high;
  }

  CharSet property() {
    const std::size_t end = text_.find('}', at_);
    if (!skip("{") || end == std::string_view::npos) throw bad("expected \\p{…}");
    std::string_view name = text_.substr(at_, end - at_);
    for (const std::string_view key : {"General_Category=", "gc="}) {
      if (name.starts_with(key)) name.remove_prefix(key.size());
    }
    CharSet set = general_category(name);
    if (set.empty() && name != "Cs" && name != "Surrogate") throw refuse(fmt::format("\\p{{{}}}", name));
    at_ = end + 1;
    return set;
  }

  CharSet character_class() {
    const bool is_negated = skip("^");
    std::vector<CharRange> all;
    const auto add = [&](const CharSet& more) { all.insert(all.end(), more.ranges().begin(), more.ranges().end()); };
    while (!skip("]")) {
      if (at_end()) throw bad("expected ]");
      const CharSet first = class_atom();
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        if (at_end()) throw bad("expected ]");
        const CharSet last = class_atom();
        if (first.size() != 1 || last.size() != 1) throw bad("a range between classes");
        const std::uint32_t from = first.ranges()[0].first, to = last.ranges()[0].first;
        if (from > to) throw bad("a range whose ends are out of order");
        add(CharSet::range(from, to));
      } else {
        add(first);
      }
    }
    const CharSet set = CharSet::of_ranges(std::move(all));
    return is_negated ? ~set : set;
  }

  CharSet class_atom() { return skip("\\") ? escape(true) : CharSet::of(take_character()); }

  Grammar& grammar_;
  std::string_view text_, where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse_regex(Grammar& grammar, std::string_view regex, RegexUse use, std::string_view where) {
  const Expr all = RegexParser(grammar, regex, where).parse();
  const Expr around =
      use == RegexUse::search ? grammar.repeat(grammar.set(CharSet::all()), 0, kUnlimited) : grammar.empty();
  return without_anchors(grammar, all, around, where);
}

Grammar parse_regex_source(std::string_view regex) {
  Grammar grammar;
  grammar.root = grammar.add_rule("regex");
  grammar.define(grammar.root, parse_regex(grammar, regex, RegexUse::whole, "regex"));
  return grammar;
}

}  // namespace vitrine::constrain
