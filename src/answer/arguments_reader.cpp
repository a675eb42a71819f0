#include "answer/arguments_reader.h"

#include <algorithm>

#include "answer/literal.h"

namespace vitrine::answer {
namespace {

constexpr int kMaxJsonDepth = 64;
/// A value up to this size is tried with every piece of text, a larger one whenever it has grown by an eighth.
constexpr std::size_t kSmallValue = 256;

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_word(char c) { return std::string_view("{}[],:\"").find(c) == std::string_view::npos; }

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// A text as JSON, without its quotes.
std::string escaped(std::string_view text) {
  const std::string json = OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return json.substr(1, json.size() - 2);
}

/// JSON text without the white space between its parts.
std::string compact(std::string_view json) {
  std::string out;
  bool is_in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_in_string && c == '\\' && i + 1 < json.size()) {
      out += c;
      out += json[++i];
      continue;
    }
    if (c == '"') is_in_string = !is_in_string;
    if (is_in_string || !is_json_space(c)) out += c;
  }
  return out;
}

/// A value as JSON: as it is spelled, if that is JSON.
std::string value_json(const Element& element) {
  const auto json = read_json(element.spelled);
  if (json && json->second == element.spelled.size()) return compact(element.spelled);
  return element.value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

Match ArgumentsReader::read(std::string_view text, std::size_t& at, bool is_last, std::string& json) {
  Match read = Match::yes;
  while (phase_ != Phase::whole && read == Match::yes) {
    notes_.reached_end = false;
    switch (phase_) {
      case Phase::begin:
        read = begin(text, at, is_last, json);
        break;
      case Phase::json:
        read = json_text(text, at, json);
        break;
      case Phase::element:
        read = element(text, at, is_last, json);
        break;
      case Phase::text:
        read = text_value(text, at, is_last, json);
        break;
      default:
        read = after_element(text, at, is_last, json);
    }
  }
  return read == Match::partial && is_last ? Match::no : read;
}

Match ArgumentsReader::end(std::string& json, std::string_view closing) {
  json += closing;
  phase_ = Phase::whole;
  return Match::yes;
}

/// As read_json() finds it: an object up to the bracket that closes it.
Match ArgumentsReader::json_text(std::string_view text, std::size_t& at, std::string& json) {
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (is_in_string_) {
      is_in_string_ = c != '"' || is_escaped_;
      is_escaped_ = c == '\\' && !is_escaped_;
      json += c;
      continue;
    }
    if (is_json_space(c)) continue;
    // What is no JSON stays none: "1 2" is not 12.
    if (depth_ > 0 && is_json_space(text[at - 1]) && is_word(c) && is_word(json.back())) json += ' ';
    json += c;
    is_in_string_ = c == '"';
    if (c == '{' || c == '[') {
      if (++depth_ > kMaxJsonDepth) return Match::no;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      ++at;
      return end(json, "");
    }
  }
  return Match::partial;
}

Match ArgumentsReader::begin(std::string_view text, std::size_t& at, bool is_last, std::string& json) {
  std::string_view rest = text.substr(at);
  if (format_->kind == ArgumentsFormat::Kind::json) {
    const Match begins = match(rest, "{", is_last);
    if (begins == Match::yes) phase_ = Phase::json;
    return begins;
  }
  const bool is_empty = elements().take_empty(rest);
  if (is_open(is_last)) return Match::partial;
  if (is_empty) {
    at = text.size() - rest.size();
    return end(json, "{}");
  }
  const Match open = match(rest, format_->members.open, is_last);
  if (open == Match::no && elements().may_end_open(false)) return end(json, "{}");
  if (open != Match::yes) return open;
  json += '{';
  element_begin_ = at;
  at += format_->members.open.size();
  phase_ = Phase::element;
  return Match::yes;
}

Match ArgumentsReader::element(std::string_view text, std::size_t& at, bool is_last, std::string& json) {
  const std::size_t size = text.size() - at;
  if (!is_last && size < next_size_) return Match::partial;
  const std::int64_t tries = notes_.tries;
  for (const bool as_text : elements().order(*schema_, text.substr(at))) {
    if (!is_open(is_last) && take_element(as_text, text, at, is_last, json)) return Match::yes;
    if (!is_open(is_last)) continue;
    notes_.tries = tries;
    next_size_ = size < kSmallValue ? size + 1 : size + size / 8;
    return Match::partial;
  }
  if (!elements().may_end_open(has_members_)) return Match::no;
  at = element_begin_;
  return end(json, "}");
}

bool ArgumentsReader::take_element(bool as_text, std::string_view text, std::size_t& at, bool is_last,
                                   std::string& json) {
  std::string_view rest = text.substr(at);
  std::optional<Element> read;
  if (!as_text) {
    read = elements().form(false, *schema_, rest);
  } else if (auto key = elements().before_value(true, rest)) {
    after_text_ = elements().after_value(true, *key);
    read = Element{.key = std::move(*key)};
  }
  if (!read || is_open(is_last)) return false;
  json += has_members_ ? ",\"" : "\"";
  json += escaped(read->key) + "\":" + (as_text ? "\"" : value_json(*read));
  at = text.size() - rest.size();
  has_members_ = true;
  next_size_ = 0;
  phase_ = as_text ? Phase::text : Phase::after_element;
  return true;
}

Match ArgumentsReader::text_value(std::string_view text, std::size_t& at, bool is_last, std::string& json) {
  std::size_t place = find_begun(text, after_text_, at);
  Match is_end = Match::partial;
  while (text.size() - place >= std::max<std::size_t>(after_text_.size(), 1)) {
    notes_.reached_end = false;
    if (elements().ends_or_goes_on(text.substr(place + after_text_.size()))) is_end = Match::yes;
    if (is_end == Match::yes || is_open(is_last)) break;
    ++place;
    while (place < text.size() && is_inside_character(text[place])) ++place;
    place = find_begun(text, after_text_, place);
  }
  json += escaped(text.substr(at, place - at));
  at = place;
  if (is_end != Match::yes) return Match::partial;
  json += '"';
  at += after_text_.size();
  phase_ = Phase::after_element;
  return Match::yes;
}

Match ArgumentsReader::after_element(std::string_view text, std::size_t& at, bool is_last, std::string& json) {
  const std::string_view rest = text.substr(at);
  const bool ends = elements().ends(rest);
  if (is_open(is_last)) return Match::partial;
  if (ends) return end(json, "}");
  const std::string& separator = format_->members.separator;
  const Match goes_on = match(rest, separator, is_last);
  if (goes_on != Match::yes) return goes_on;
  element_begin_ = at;
  at += separator.size();
  phase_ = Phase::element;
  return Match::yes;
}

}  // namespace vitrine::answer
