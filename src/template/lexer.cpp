#include "template/lexer.h"

#include <array>
#include <cctype>
#include <charconv>

#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// CR LF and CR as LF, without a line break at the end.
std::string with_line_feeds(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    text += source[i] == '\r' ? '\n' : source[i];
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

/// Decodes the escapes of a string literal: those of Python, without octal numbers and names of characters.
class Unescape {
 public:
  Unescape(std::string_view literal, int line) : literal_(literal), line_(line) {}

  std::string run() {
    while (at_ < literal_.size()) {
      const std::size_t escape = std::min(literal_.find('\\', at_), literal_.size());
      out_ += literal_.substr(at_, escape - at_);
      at_ = escape + 1;
      if (escape < literal_.size()) read_escape();
    }
    return std::move(out_);
  }

 private:
  void read_escape() {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv0\n", kTo{"\\'\"\a\b\f\n\r\t\v\0", 11};
    const char c = literal_[at_++];
    const std::size_t simple = kFrom.find(c);
    const bool is_octal = is_digit(c) && c < '8' && (c != '0' || (at_ < literal_.size() && is_digit(literal_[at_])));
    if (c == 'N' || is_octal) {
      throw unsupported("escape", fmt::format("\\{}", c), line_);
    }
    if (simple != kFrom.npos) {
      out_ += kTo.substr(simple, 1);  // nothing for a line break
    } else if (c == 'x' || c == 'u' || c == 'U') {
      read_hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8, c);
    } else {
      (out_ += '\\') += c;
    }
  }

  void read_hexadecimal(std::size_t n_digits, char letter) {
    const std::string_view digits = literal_.substr(at_, n_digits);
    std::uint32_t value = 0;
    const char* const end = digits.data() + digits.size();
    if (digits.size() < n_digits || std::from_chars(digits.data(), end, value, 16).ptr != end) {
      throw syntax_error(fmt::format("truncated \\{}{} escape", letter, std::string(n_digits, 'X')), line_);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) throw syntax_error("illegal Unicode character", line_);
    append_character(out_, value);
    at_ += n_digits;
  }

  std::string_view literal_;
  int line_;
  std::size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  Lexer(Heap& heap, std::string_view source) : heap_(heap), source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(Token::Type::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw syntax_error(what, line_); }
  void add(Token::Type type, std::string_view text) { tokens_.push_back({type, text, line_}); }
  char at(std::size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  bool is_at(std::size_t i, std::string_view text) const { return source_.substr(i, text.size()) == text; }
  /// Moves to `end`.
  void move_to(std::size_t end) {
    for (std::size_t i = at_; i < end; ++i) line_ += source_[i] == '\n';
    if (end > at_) at_line_start_ = source_[end - 1] == '\n';
    at_ = end;
  }
  /// Moves past a token.
  void take(Token::Type type, std::size_t end) {
    add(type, source_.substr(at_, end - at_));
    move_to(end);
  }
  std::size_t after_space(std::size_t i) const {
    const std::string_view rest = source_.substr(i);
    return i + rest.size() - strip(rest, true, false).size();
  }
  /// The end of a tag's end `-%}`, `+%}` or `%}` at `i`, with the white space that it removes; npos if there is none.
  std::size_t after_end(std::size_t i, std::string_view mark, bool plus, bool trim) const {
    if (at(i) == '-' && is_at(i + 1, mark)) return after_space(i + 3);
    if (plus && at(i) == '+' && is_at(i + 1, mark)) return i + 3;
    if (i >= source_.size() || !is_at(i, mark)) return source_.npos;
    return i + 2 + (trim && at(i + 2) == '\n');
  }
  char sign_at(std::size_t i) const { return at(i) == '-' || at(i) == '+' ? at(i) : '\0'; }
  /// Adds text before a tag, without the white space that the tag removes.
  void add_data(std::string_view text, char sign, bool is_variable) {
    const std::size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
    if (sign == '-') {
      text = strip(text, false, true);
    } else if (sign != '+' && !is_variable && (line_begin > 0 || at_line_start_) &&
               strip(text.substr(line_begin), true, false).empty()) {
      text = text.substr(0, line_begin);
    }
    if (!text.empty()) add(Token::Type::data, text);
  }

  void read_text() {
    std::size_t tag = source_.find('{', at_);
    while (tag != source_.npos && at(tag + 1) != '{' && at(tag + 1) != '%' && at(tag + 1) != '#') {
      tag = source_.find('{', tag + 1);
    }
    if (tag == source_.npos) return take(Token::Type::data, source_.size());
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(source_.substr(at_, tag - at_), sign, kind == '{');
    const std::size_t inside = tag + 2 + (sign != '\0');
    const std::size_t raw = kind == '%' ? after_raw_begin(inside) : source_.npos;
    move_to(raw != source_.npos ? raw : inside);
    if (raw != source_.npos) return read_raw();
    if (kind == '#') return read_comment();
    read_tag(kind == '{');
  }

  std::size_t after_raw_begin(std::size_t i) const {
    i = after_space(i);
    return is_at(i, "raw") ? after_end(after_space(i + 3), "%}", false, false) : source_.npos;
  }

  void read_raw() {
    for (std::size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      const std::size_t word = after_space(tag + 2 + (sign != '\0'));
      if (!is_at(word, "endraw")) continue;
      const std::size_t end = after_end(after_space(word + 6), "%}", true, true);
      if (end == source_.npos) continue;
      add_data(source_.substr(at_, tag - at_), sign, false);
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
      const std::string_view mark = is_variable ? "}}" : "%}";
      const std::size_t end = open_.empty() ? after_end(at_, mark, !is_variable, !is_variable) : source_.npos;
      if (end != source_.npos) {
        add(is_variable ? Token::Type::variable_end : Token::Type::block_end, mark);
        return move_to(end);
      }
      read_token();
    }
  }

  void read_token() {
    const std::size_t space = after_space(at_);
    if (space > at_) return move_to(space);
    if (is_digit(source_[at_])) return read_number();
    if (is_word(source_[at_])) return take(Token::Type::name, after_word(at_));
    if (read_string() || read_sign()) return;
    std::size_t next = at_;
    next_character(source_, next);
    fail(fmt::format("unexpected char {} at {}", repr_text(source_.substr(at_, next - at_)),
                     count_characters(source_.substr(0, at_))));
  }

  std::size_t after_word(std::size_t i) const {
    while (is_word(at(i))) ++i;
    return i;
  }
  std::size_t after_digits(std::size_t i) const {
    while (is_digit(at(i))) ++i;
    return i;
  }

  void read_number() {
    const std::size_t whole = after_digits(at_);
    std::size_t end = whole;
    if (at_ == 0 || source_[at_ - 1] != '.') {  // x.0.5 is two items
      if (at(end) == '.' && is_digit(at(end + 1))) end = after_digits(end + 1);
      const std::size_t power = end + 1 + (sign_at(end + 1) != '\0');
      if ((at(end) | 0x20) == 'e' && is_digit(at(power))) end = after_digits(power);
    }
    const bool has_base = whole == at_ + 1 && source_[at_] == '0' && std::string_view("xXoObB").find(at(whole)) < 6 &&
                          std::isxdigit(static_cast<unsigned char>(at(whole + 1))) != 0;
    if (has_base || (at(end) == '_' && is_digit(at(end + 1)))) {
      throw unsupported("number", source_.substr(at_, after_word(end) - at_), line_);
    }
    if (end > whole) return take(Token::Type::real, end);
    if (source_[at_] == '0') end = std::min(source_.find_first_not_of('0', at_), source_.size());
    take(Token::Type::integer, end);
  }

  bool read_string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return false;
    const std::string_view literal = source_.substr(at_ + 1, end - at_ - 1);
    const bool is_plain = literal.find('\\') == literal.npos;
    add(Token::Type::string, is_plain ? literal : heap_.copy(Unescape(literal, line_).run()));
    move_to(end + 1);
    return true;
  }

  bool read_sign() {
    static constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view sign = source_.substr(at_, 1);
    for (const std::string_view two : kLong) {
      if (is_at(at_, two)) sign = two;
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
    take(Token::Type::sign, at_ + sign.size());
    return true;
  }

  Heap& heap_;
  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  ///< the last match ended with a line break
  std::string open_;           ///< the closing brackets of the open ones
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(Heap& heap, std::string_view source) {
  return Lexer(heap, heap.copy(with_line_feeds(source))).run();
}

}  // namespace vitrine::jinja
