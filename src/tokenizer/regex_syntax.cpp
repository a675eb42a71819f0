// Translates the regexes of tokenizer files into PCRE2's syntax. Constructs whose meaning differs are rewritten;
// unknown ones are rejected.
//
// Sources: Oniguruma's doc/RE (Ruby syntax), the documentation of Rust's regex and fancy-regex, pcre2pattern(3).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/regex.h"

namespace vitrine {
namespace {

// White_Space of Unicode's PropList.txt. PCRE2's \s also contains U+180E, which Unicode 6.3 removed from that list.
constexpr std::string_view kSpace =
    R"(\t-\r\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x00-\x08\x0E-\x1F\x21-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E})"
    R"(\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
// Older characters that became Alphabetic with Unicode 15 or 16; PCRE2 may have Unicode 14.
constexpr std::string_view kAlphabetic =
    R"(\p{Alphabetic}\x{363}-\x{36F}\x{C04}\x{F82}\x{F83}\x{1DD3}-\x{1DE6}\x{11080}\x{11081})";
constexpr std::string_view kAlphanumeric =
    R"(\p{Alphabetic}\x{363}-\x{36F}\x{C04}\x{F82}\x{F83}\x{1DD3}-\x{1DE6}\x{11080}\x{11081}\p{Nd})";
// PCRE2's \w contains only letters, numbers and the underscore.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// ² ³ ¹ ¼ ½ ¾: Oniguruma's \w contains them, because of its table for Latin-1, except inside a class.
constexpr std::string_view kLatinNumbers = R"(\xB2\xB3\xB9\xBC-\xBE)";

struct Posix {
  std::string_view name, set;
};
/// The contents of Oniguruma's [:name:], verified against it for every code point.
constexpr Posix kPosix[] = {{"[:alpha:]", kAlphabetic},
                            {"[:alnum:]", kAlphanumeric},
                            {"[:digit:]", R"(\p{Nd})"},
                            {"[:space:]", kSpace},
                            {"[:word:]", kWord},
                            {"[:punct:]", R"(\p{P}\p{S})"},
                            {"[:upper:]", R"(\p{Uppercase})"},
                            {"[:cntrl:]", R"(\p{Cc})"},
                            {"[:blank:]", R"(\t\p{Zs})"},
                            {"[:xdigit:]", "0-9A-Fa-f"},
                            {"[:ascii:]", R"(\x00-\x7F)"}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Translator {
 public:
  Translator(std::string_view pattern, RegexSyntax syntax, std::string_view where)
      : pattern_(pattern), syntax_(syntax), where_(where) {}

  std::string run() {
    // The only common pattern that takes quadratic time, on a run of spaces before other text. A match that fails at
    // the beginning of the run also fails inside it, so it is not tried there.
    if (pattern_ == R"(\s+$)") return fmt::format(R"((?:\G|(?<![{0}]))[{0}]+$)", kSpace);
    while (at_ < pattern_.size()) {
      switch (pattern_[at_]) {
        case '\\':
          escape(false);
          break;
        case '[':
          character_class();
          break;
        case '(':
          group();
          break;
        case '{':
          repeat();
          break;
        default:
          out_ += pattern_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Unsupported(where_, "{} in the regex \"{}\" is not supported", what, pattern_);
  }
  [[noreturn]] void malformed() const { throw BadCheckpoint(where_, "malformed regex \"{}\"", pattern_); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }

  /// Reads {…} and returns what is between the braces.
  std::string_view braced() {
    const std::size_t close = pattern_.find('}', at_);
    if (close == pattern_.npos) malformed();
    const std::string_view content = pattern_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    return content;
  }

  void set(std::string_view content, bool in_class, bool negated = false) {
    if (in_class && negated) refuse("a negated set inside a class");
    out_ += in_class ? std::string(content) : fmt::format("[{}{}]", negated ? "^" : "", content);
  }

  void escape(bool in_class) {
    const char c = peek(1);
    const std::size_t start = at_;
    at_ += 2;
    switch (c) {
      case 's':
        return set(kSpace, in_class);
      case 'S':
        return set(kNotSpace, in_class);
      case 'w':
      case 'W':
        if (in_class || syntax_ == RegexSyntax::rust) return set(kWord, in_class, c == 'W');
        return set(std::string(kWord).append(kLatinNumbers), false, c == 'W');
      case 'd':
        out_ += R"(\p{Nd})";
        return;
      case 'D':
        out_ += R"(\P{Nd})";
        return;
      case 'v':
        out_ += R"(\x0B)";
        return;  // PCRE2's \v is a set
      case 'p':
      case 'P':
        return property(c, in_class);
      case 'x':
      case 'u':
      case 'U':
        return code_point(c);
      default:
        break;
    }
    const bool is_same = std::string_view("tnrfae").find(c) != std::string_view::npos ||
                         (!in_class && (c == 'A' || c == 'z')) || !(c == '\0' || is_letter(c) || is_digit(c));
    if (!is_same) refuse(fmt::format("\\{}", c == '\0' ? ' ' : c));
    out_ += pattern_.substr(start, 2);  // of a character of several bytes, its first byte
  }

  /// \p{L}, \p{^L}, \p{Han}, and in Rust \pL, which Oniguruma reads as the letters p and L. The name of a script means
  /// the property Script, which PCRE2 spells sc:.
  void property(char p, bool in_class) {
    std::string name;
    if (peek() != '{' && syntax_ == RegexSyntax::oniguruma) {
      out_ += p;
      return;
    }
    if (peek() == '{') {
      name = braced();
    } else {
      name = std::string(1, peek());
      ++at_;
    }
    bool negated = p == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    for (char c : name) {
      if (!is_letter(c) && c != '_' && c != '&') refuse(fmt::format("\\{}{{{}}}", p, name));
    }
    if (name == "Alphabetic") return set(kAlphabetic, in_class, negated);
    out_ += fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', is_script(name) ? "sc:" : "", name);
  }

  static bool is_script(std::string_view name) {
    constexpr std::string_view kOthers[] = {"Any", "ASCII", "Uppercase", "White_Space"};
    return name.size() > 2 && std::find(std::begin(kOthers), std::end(kOthers), name) == std::end(kOthers);
  }

  /// \xHH, \x{H…}, \uHHHH, and in Rust \u{H…} and \UHHHHHHHH.
  void code_point(char kind) {
    std::string digits;
    if (peek() == '{' && (kind == 'x' || syntax_ == RegexSyntax::rust)) {
      digits = braced();
    } else {
      const std::size_t n = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
      if (kind == 'U' && syntax_ == RegexSyntax::oniguruma) refuse("\\U");
      digits = pattern_.substr(at_, n);
      at_ += digits.size();
      if (digits.size() != n) malformed();
    }
    if (!std::all_of(digits.begin(), digits.end(), is_hex)) malformed();
    out_ += fmt::format("\\x{{{}}}", digits);
  }

  /// [abc], and [abc&&[^d]], the common characters of several classes, which PCRE2 expresses by lookaheads.
  void character_class() {
    std::string before = std::exchange(out_, "");
    ++at_;
    const bool negated = skip('^');
    if (peek() == ']') refuse("] at the front of a class");
    std::vector<std::string> operands;
    for (bool more = true; more;) {
      more = class_operand(operands.empty());
      operands.push_back(out_.starts_with("[^") ? out_ : fmt::format("[{}{}]", negated ? "^" : "", out_));
      out_.clear();
    }
    if (operands.size() > 1 && negated) refuse("[^ before &&");
    std::string joined = operands.front();
    if (operands.size() > 1) {
      for (std::size_t i = operands.size(); i-- > 1;) joined = fmt::format("(?={}){}", operands[i], joined);
      joined = fmt::format("(?:{})", joined);
    }
    out_ = std::move(before) + joined;
  }

  bool skip(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  /// Writes the contents of a class up to its end or to &&. Returns whether another operand follows. An operand after
  /// the first may be a negated class.
  bool class_operand(bool is_first) {
    for (int depth = 1;;) {
      const char c = peek();
      if (at_ >= pattern_.size()) malformed();
      if (c == '\\') {
        escape(true);
      } else if (c == '[') {  // nested classes form a union
        if (peek(1) == ':') {
          posix();
          continue;
        }
        if (peek(1) == '^') {
          if (is_first || depth > 1 || !out_.empty()) refuse("[^ inside a class");
          character_class();
          if (peek() != ']' && !(peek() == '&' && peek(1) == '&')) refuse("[^ inside a class");
          continue;
        }
        ++depth;
        ++at_;
      } else if (c == ']') {
        ++at_;
        if (--depth == 0) return false;
      } else if (c == '&' && peek(1) == '&' && depth == 1) {
        if (out_.empty()) refuse("&& without a set before it");
        at_ += 2;
        return true;
      } else if ((c == '&' && peek(1) == '&') || (c == '-' && peek(1) == '-') || (c == '~' && peek(1) == '~')) {
        refuse(std::string(2, c));  // a set operation in one of the syntaxes
      } else {
        out_ += c;
        ++at_;
      }
    }
  }

  void posix() {
    const std::string_view rest = pattern_.substr(at_);
    const auto* found = std::find_if(std::begin(kPosix), std::end(kPosix),
                                     [&](const Posix& posix) { return rest.starts_with(posix.name); });
    if (found == std::end(kPosix) || syntax_ == RegexSyntax::rust) refuse("[: inside a class");
    out_ += found->set;
    at_ += found->name.size();
  }

  void group() {
    if (peek(1) != '?') {
      if (peek(1) == '*') refuse("(*");
      out_ += '(';
      ++at_;
      return;
    }
    const std::string_view rest = pattern_.substr(at_);
    for (std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (!rest.starts_with(known)) continue;
      out_ += known;
      at_ += known.size();
      return;
    }
    const std::size_t end = rest.find_first_of(":)");
    const std::string_view flags = end == rest.npos ? "" : rest.substr(2, end - 2);
    // Ruby's m is the s of other syntaxes, so only i has the same meaning in both.
    if (flags.empty() || flags.find_first_not_of(syntax_ == RegexSyntax::rust ? "ims-" : "i-") != flags.npos) {
      refuse(rest.substr(0, end == rest.npos ? 3 : end + 1));
    }
    out_ += rest.substr(0, end + 1);
    at_ += end + 1;
  }

  /// {n}, {n,}, {n,m}. Any other { is literal.
  void repeat() {
    std::size_t i = at_ + 1;
    if (i < pattern_.size() && pattern_[i] == ',') refuse("{,n}");
    while (i < pattern_.size() && (is_digit(pattern_[i]) || pattern_[i] == ',')) ++i;
    if (i == at_ + 1 || i >= pattern_.size() || pattern_[i] != '}') {
      out_ += "\\{";
      ++at_;
      return;
    }
    ++i;
    if (i < pattern_.size() && pattern_[i] == '+' && syntax_ == RegexSyntax::oniguruma) refuse("{n,m}+");
    out_ += pattern_.substr(at_, i - at_);
    at_ = i;
  }

  std::string_view pattern_;
  RegexSyntax syntax_;
  std::string_view where_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_regex(std::string_view pattern, RegexSyntax syntax, std::string_view where) {
  return Translator(pattern, syntax, where).run();
}

}  // namespace vitrine
