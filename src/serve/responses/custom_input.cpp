#include "serve/responses/custom_input.h"

#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

bool is_high(std::uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(std::uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

std::uint32_t digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint32_t>(c - 'A' + 10);
  return 0;
}

}  // namespace

std::string CustomInput::append(std::string_view arguments) {
  std::string text;
  for (const char c : arguments) {
    switch (place_) {
      case Place::before:
        if (c == '"') place_ = Place::key;
        break;
      case Place::key:
        if (c == '"' && !is_escaped_) place_ = Place::colon;
        is_escaped_ = c == '\\' && !is_escaped_;
        break;
      case Place::colon:
        if (c == '"') place_ = Place::text;
        break;
      case Place::text:
        read_value(c, text);
        break;
      case Place::escape:
        read_escape(c, text);
        break;
      case Place::unicode:
        read_unicode(c, text);
        break;
      case Place::after:
        break;
    }
  }
  return text;
}

void CustomInput::read_value(char c, std::string& text) {
  if (c == '\\') {
    place_ = Place::escape;
    return;
  }
  end_pair(text);
  if (c == '"') {
    place_ = Place::after;
  } else {
    text += c;
  }
}

void CustomInput::read_escape(char c, std::string& text) {
  if (c == 'u') {
    place_ = Place::unicode;
    unit_ = 0;
    n_digits_ = 0;
    return;
  }
  end_pair(text);
  place_ = Place::text;
  switch (c) {
    case 'b':
      text += '\b';
      break;
    case 'f':
      text += '\f';
      break;
    case 'n':
      text += '\n';
      break;
    case 'r':
      text += '\r';
      break;
    case 't':
      text += '\t';
      break;
    default:
      text += c;
  }
}

void CustomInput::read_unicode(char c, std::string& text) {
  unit_ = unit_ * 16 + digit_of(c);
  if (++n_digits_ < 4) return;
  place_ = Place::text;
  if (high_ != 0 && is_low(unit_)) {
    append_code_point(0x10000 + ((high_ - 0xD800) << 10) + (unit_ - 0xDC00), text);
    high_ = 0;
    return;
  }
  end_pair(text);
  if (is_high(unit_)) {
    high_ = unit_;
  } else {
    append_code_point(is_low(unit_) ? kReplacement : unit_, text);
  }
}

/// The first half of a pair that has no second one.
void CustomInput::end_pair(std::string& text) {
  if (high_ != 0) append_code_point(kReplacement, text);
  high_ = 0;
}

}  // namespace vitrine
