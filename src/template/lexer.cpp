#include "template/lexer.h"

#include <array>
#include <cctype>

#include "template/error.h"
#include "template/format.h"
#include "template/text.h"
#include "template/unicode_tables.h"

namespace vitrine::jinja {
namespace {

/// CR LF and CR as LF, without a line break at the end.
std::string with_line_feeds(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(Token::Type::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw syntax_error(what, line_); }
  std::string_view rest() const { return source_.substr(at_); }
  bool next_is(std::string_view text) const { return rest().substr(0, text.size()) == text; }
  void add(Token::Type type, std::string_view text) { tokens_.push_back({type, std::string(text), line_}); }
  /// Moves to `end`.
  void move_to(std::size_t end) {
    for (std::size_t i = at_; i < end; ++i) line_ += source_[i] == '\n';
    if (end > at_) at_line_start_ = source_[end - 1] == '\n';
    at_ = end;
  }
  std::size_t after_space(std::size_t i) const {
    while (i < source_.size()) {
      std::size_t next = i;
      if (!is_space(next_character(source_, next))) break;
      i = next;
    }
    return i;
  }
  /// The end of a tag's end `-%}`, `+%}` or `%}` at `i`, with the white space that it removes; npos if there is none.
  std::size_t after_end(std::size_t i, std::string_view mark, bool plus, bool trim) const {
    const std::string_view here = source_.substr(i);
    if (here.substr(0, 1) == "-" && here.substr(1, 2) == mark) return after_space(i + 3);
    if (plus && here.substr(0, 1) == "+" && here.substr(1, 2) == mark) return i + 3;
    if (here.substr(0, 2) != mark) return std::string_view::npos;
    return i + 2 + (trim && i + 2 < source_.size() && source_[i + 2] == '\n');
  }
  char sign_at(std::size_t i) const {
    return i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
  }
  /// Text before a tag, without the white space that the tag removes.
  std::string_view stripped(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, false, true);
    if (sign == '+' || is_variable) return text;
    const std::size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line_begin == 0 && !at_line_start_) return text;
    return strip(text.substr(line_begin), true, false).empty() ? text.substr(0, line_begin) : text;
  }
  void add_data(std::string_view text) {
    if (!text.empty()) add(Token::Type::data, text);
  }

  void read_text() {
    std::size_t tag = source_.find('{', at_);
    while (tag != source_.npos && tag + 1 < source_.size() &&
           std::string_view("{%#").find(source_[tag + 1]) == source_.npos) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == source_.npos || tag + 1 >= source_.size()) {
      add_data(rest());
      return move_to(source_.size());
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(stripped(source_.substr(at_, tag - at_), sign, kind == '{'));
    const std::size_t inside = tag + 2 + (sign != '\0');
    if (kind == '%') {
      const std::size_t raw = after_raw_begin(inside);
      if (raw != source_.npos) {
        move_to(raw);
        return read_raw();
      }
    }
    move_to(inside);
    if (kind == '#') return read_comment();
    read_tag(kind == '{');
  }

  std::size_t after_raw_begin(std::size_t i) const {
    i = after_space(i);
    if (source_.substr(i, 3) != "raw") return source_.npos;
    return after_end(after_space(i + 3), "%}", false, false);
  }

  void read_raw() {
    for (std::size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      const std::size_t word = after_space(tag + 2 + (sign != '\0'));
      if (source_.substr(word, 6) != "endraw") continue;
      const std::size_t end = after_end(after_space(word + 6), "%}", true, true);
      if (end == source_.npos) continue;
      add_data(stripped(source_.substr(at_, tag - at_), sign, false));
      return move_to(end);
    }
    if (at_ < source_.size()) fail("Missing end of raw directive");
  }

  void read_comment() {
    for (std::size_t i = at_; i < source_.size(); ++i) {
      const std::size_t end = after_end(i, "#}", true, true);
      if (end != source_.npos) return move_to(end);
    }
    if (at_ < source_.size()) fail("Missing end of comment tag");
  }

  void read_tag(bool is_variable) {
    add(is_variable ? Token::Type::variable_begin : Token::Type::block_begin, is_variable ? "{{" : "{%");
    open_.clear();
    while (at_ < source_.size()) {
      if (open_.empty()) {
        const std::size_t end = after_end(at_, is_variable ? "}}" : "%}", !is_variable, !is_variable);
        if (end != source_.npos) {
          add(is_variable ? Token::Type::variable_end : Token::Type::block_end, is_variable ? "}}" : "%}");
          return move_to(end);
        }
      }
      read_token();
    }
  }

  void read_token() {
    const std::size_t space = after_space(at_);
    if (space > at_) return move_to(space);
    if (read_number() || read_name() || read_string() || read_sign()) return;
    std::size_t next = at_;
    const char32_t c = next_character(source_, next);
    std::string character;
    append_character(character, c);
    fail(fmt::format("unexpected char {} at {}", repr_text(character), count_characters(source_.substr(0, at_))));
  }

  /// Digits of one base with single underscores between them; returns their end.
  template <class IsDigit>
  std::size_t digits(std::size_t i, IsDigit is) const {
    while (i < source_.size() && is(source_[i])) {
      ++i;
      if (i + 1 < source_.size() && source_[i] == '_' && is(source_[i + 1])) ++i;
    }
    return i;
  }
  /// The end of a float at the current place, or npos.
  std::size_t after_real() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return source_.npos;
    const std::size_t whole = digits(at_, is_digit);
    if (whole == at_) return source_.npos;
    std::size_t end = whole;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) end = digits(end + 1, is_digit);
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
      const std::size_t after = digits(power, is_digit);
      if (after > power) return after;
    }
    return end > whole ? end : source_.npos;
  }
  std::size_t after_integer() const {
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char base = static_cast<char>(source_[at_ + 1] | 0x20);
      std::size_t first = at_ + 2;
      if (first < source_.size() && source_[first] == '_') ++first;
      const auto end = [&](auto is) { return digits(first, is); };
      std::size_t after = first;
      if (base == 'b') after = end([](char c) { return c == '0' || c == '1'; });
      if (base == 'o') after = end([](char c) { return c >= '0' && c <= '7'; });
      if (base == 'x') after = end([](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
      if (after > first) return after;
    }
    if (source_[at_] == '0') return digits(at_, [](char c) { return c == '0'; });
    return digits(at_, is_digit);
  }
  bool read_number() {
    if (!is_digit(source_[at_])) return false;
    const std::size_t real = after_real();
    const std::size_t end = real != source_.npos ? real : after_integer();
    std::string text;
    for (const char c : source_.substr(at_, end - at_)) {
      if (c != '_') text += c;
    }
    add(real != source_.npos ? Token::Type::real : Token::Type::integer, text);
    move_to(end);
    return true;
  }

  bool read_name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      std::size_t next = end;
      const char32_t c = next_character(source_, next);
      if (!is_word(c)) break;
      end = next;
    }
    if (end == at_) return false;
    const std::string_view name = source_.substr(at_, end - at_);
    for (std::size_t i = 0; i < name.size();) {
      const bool is_first = i == 0;
      const char32_t c = next_character(name, i);
      if (c != '_' && !has_property(c, is_first ? kAlpha : kAlpha | kDecimal)) fail("Invalid character in identifier");
    }
    add(Token::Type::name, name);
    move_to(end);
    return true;
  }

  bool read_string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return false;
    add(Token::Type::string, unescape(source_.substr(at_ + 1, end - at_ - 1), line_));
    move_to(end + 1);
    return true;
  }

  bool read_sign() {
    static constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view sign = rest().substr(0, 1);
    for (const std::string_view two : kLong) {
      if (next_is(two)) sign = rest().substr(0, 2);
    }
    if (sign.size() == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(sign[0]) == sign.npos) return false;
    if (sign == "{") open_ += '}';
    if (sign == "(") open_ += ')';
    if (sign == "[") open_ += ']';
    if (sign == "}" || sign == ")" || sign == "]") {
      if (open_.empty()) fail(fmt::format("unexpected '{}'", sign));
      if (open_.back() != sign[0]) fail(fmt::format("unexpected '{}', expected '{}'", sign, open_.back()));
      open_.pop_back();
    }
    add(Token::Type::sign, sign);
    move_to(at_ + sign.size());
    return true;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  ///< the last match ended with a line break
  std::string open_;           ///< the closing brackets of the open ones
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  const std::string text = with_line_feeds(source);
  return Lexer(text).run();
}

}  // namespace vitrine::jinja
