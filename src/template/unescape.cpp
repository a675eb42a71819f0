// The escapes of string literals: Python's "unicode-escape".
#include <algorithm>
#include <iterator>

#include "template/error.h"
#include "template/format.h"
#include "template/lexer.h"
#include "template/text.h"
#include "template/unicode_names.h"

namespace vitrine::jinja {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char letter = static_cast<char>(c | 0x20);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

class Unescape {
 public:
  Unescape(std::string_view literal, int line) : literal_(literal), line_(line) {}

  std::string run() {
    while (at_ < literal_.size()) {
      const char c = literal_[at_++];
      if (c == '\\' && at_ < literal_.size()) {
        read_escape();
      } else {
        out_ += c;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw syntax_error(what, line_); }

  void read_escape() {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = literal_[at_];
    if (static_cast<unsigned char>(c) >= 0x80) return read_non_ascii();
    ++at_;
    const std::size_t simple = kFrom.find(c);
    if (c == '\n') return;
    if (simple != kFrom.npos) {
      out_ += kTo[simple];
    } else if (c >= '0' && c <= '7') {
      read_octal();
    } else if (c == 'x') {
      read_hex(2, "truncated \\xXX escape");
    } else if (c == 'u') {
      read_hex(4, "truncated \\uXXXX escape");
    } else if (c == 'U') {
      read_hex(8, "truncated \\UXXXXXXXX escape");
    } else if (c == 'N') {
      read_name();
    } else {
      out_ += '\\';
      out_ += c;
    }
  }

  /// jinja2 escapes other characters before it decodes, so that a backslash before one is a backslash before its
  /// escape.
  void read_non_ascii() {
    const char32_t c = next_character(literal_, at_);
    out_ += '\\';
    out_ += c < 0x100     ? fmt::format("x{:02x}", static_cast<unsigned>(c))
            : c < 0x10000 ? fmt::format("u{:04x}", static_cast<unsigned>(c))
                          : fmt::format("U{:08x}", static_cast<unsigned>(c));
  }

  void read_octal() {
    char32_t value = 0;
    --at_;
    for (int i = 0; i < 3 && at_ < literal_.size() && literal_[at_] >= '0' && literal_[at_] <= '7'; ++i) {
      value = value * 8 + static_cast<char32_t>(literal_[at_++] - '0');
    }
    append_character(out_, value);
  }

  void read_hex(int n_digits, const char* too_short) {
    char32_t value = 0;
    for (int i = 0; i < n_digits; ++i) {
      const int digit = at_ < literal_.size() ? hex_value(literal_[at_]) : -1;
      if (digit < 0) fail(too_short);
      value = value << 4 | static_cast<char32_t>(digit);
      ++at_;
    }
    if (value > 0x10FFFF) fail("illegal Unicode character");
    append_character(out_, value);
  }

  void read_name() {
    const std::size_t end = literal_.find('}', at_);
    if (at_ >= literal_.size() || literal_[at_] != '{' || end == literal_.npos) fail("malformed \\N character escape");
    std::string name(literal_.substr(at_ + 1, end - at_ - 1));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    const auto* const found = std::find_if(std::begin(kCharacterNames), std::end(kCharacterNames),
                                           [&](const CharacterName& n) { return name == n.name; });
    if (found == std::end(kCharacterNames)) fail("unknown Unicode character name");
    append_character(out_, found->character);
    at_ = end + 1;
  }

  std::string_view literal_;
  int line_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string unescape(std::string_view literal, int line) { return Unescape(literal, line).run(); }

}  // namespace vitrine::jinja
