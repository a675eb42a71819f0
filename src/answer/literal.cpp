#include "answer/literal.h"

#include <algorithm>
#include <string>

#include "template/text.h"

namespace vitrine::answer {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::string_view kNumber = "+-.0123456789eE";
/// The characters of numbers, of words and, after the place of an escape, of its digits.
constexpr std::string_view kWord = "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

constexpr std::size_t kUnended = std::string_view::npos;

/// The end of the JSON text that begins at the beginning of `text`: brackets that match, a string, or a word; 0: none,
/// kUnended: it does not end in `text`.
std::size_t json_size(std::string_view text) {
  int depth = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        is_in_string = false;
        if (depth == 0) return i + 1;
      }
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return 0;
    } else if (c == '}' || c == ']') {
      if (--depth <= 0) return depth == 0 ? i + 1 : 0;
    } else if (depth == 0) {
      for (const std::string_view word : {"true", "false", "null"}) {
        if (text.starts_with(word)) return word.size();
      }
      return std::min(text.find_first_not_of(kNumber), text.size());
    }
  }
  return kUnended;
}

/// Reads Python's literals.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }

  std::optional<OrderedJson> value(int depth = 0) {
    if (depth > kMaxDepth || at_ >= text_.size()) return std::nullopt;
    const char c = text_[at_];
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return dict(depth);
    if (c == '\'' || c == '"') return string();
    return word();
  }

 private:
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  std::optional<OrderedJson> word() {
    static const std::pair<std::string_view, OrderedJson> kWords[] = {
        {"True", true}, {"False", false}, {"None", nullptr}, {"true", true}, {"false", false}, {"null", nullptr}};
    for (const auto& [name, value] : kWords) {
      if (!text_.substr(at_).starts_with(name)) continue;
      at_ += name.size();
      return value;
    }
    const std::size_t size = json_size(text_.substr(at_));
    if (size == 0 || size == kUnended) return std::nullopt;
    OrderedJson number = OrderedJson::parse(text_.substr(at_, size), nullptr, false);
    if (!number.is_number()) return std::nullopt;
    at_ += size;
    return number;
  }

  std::optional<OrderedJson> list(char end, int depth) {
    OrderedJson items = OrderedJson::array();
    ++at_;
    while (!take(end)) {
      if (!items.empty() && !take(',')) return std::nullopt;
      if (!items.empty() && take(end)) return items;  // a comma may be last
      space();
      std::optional<OrderedJson> item = value(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    }
    return items;
  }

  std::optional<OrderedJson> dict(int depth) {
    OrderedJson members = OrderedJson::object();
    ++at_;
    while (!take('}')) {
      if (!members.empty() && !take(',')) return std::nullopt;
      space();
      const std::optional<OrderedJson> key = value(depth + 1);
      if (!key || !key->is_string() || !take(':')) return std::nullopt;
      space();
      std::optional<OrderedJson> member = value(depth + 1);
      if (!member) return std::nullopt;
      members[key->get_ref<const std::string&>()] = std::move(*member);
    }
    return members;
  }

  std::optional<OrderedJson> string() {
    const char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        out += text_[at_++];
      } else if (!escape(out)) {
        return std::nullopt;
      }
    }
    if (at_ >= text_.size()) return std::nullopt;
    ++at_;
    return OrderedJson(std::move(out));
  }

  bool escape(std::string& out) {
    if (++at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "ntrbfav0\\'\"/", kValues("\n\t\r\b\f\a\v\0\\'\"/", 12);
    if (const std::size_t known = kNames.find(c); known != kNames.npos) {
      out += kValues[known];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || at_ + digits > text_.size()) return false;
    char32_t code = 0;
    for (const char d : text_.substr(at_, digits)) {
      constexpr std::string_view kHex = "0123456789abcdef";
      const std::size_t value = kHex.find(static_cast<char>(d | 0x20));
      if (value == kHex.npos) return false;
      code = code * 16 + static_cast<char32_t>(value);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    at_ += digits;
    jinja::append_character(out, code);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::pair<OrderedJson, std::size_t>> read_json(std::string_view text) {
  const std::size_t size = json_size(text);
  if (size == 0 || size == kUnended) return std::nullopt;
  OrderedJson value = OrderedJson::parse(text.substr(0, size), nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return std::pair{std::move(value), size};
}

std::optional<std::pair<OrderedJson, std::size_t>> read_literal(std::string_view text) {
  bool reached_end = false;
  return read_literal(text, reached_end);
}

std::optional<std::pair<OrderedJson, std::size_t>> read_literal(std::string_view text, bool& reached_end) {
  const std::size_t size = json_size(text);
  reached_end = reached_end || size == kUnended || size == text.size();
  if (auto json = read_json(text)) return json;
  PythonReader reader(text);
  std::optional<OrderedJson> value = reader.value();
  // A literal that fails, or ends, in the last word of the text may go on.
  const std::size_t at = std::min(reader.at(), text.size());
  reached_end = reached_end || text.find_first_not_of(kWord, at) == text.npos;
  if (!value) return std::nullopt;
  return std::pair{std::move(*value), reader.at()};
}

}  // namespace vitrine::answer
