#include "tokenizer/pattern.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "tokenizer/json_fields.h"

namespace vitrine {

Pattern parse_pattern(const Json& json, std::string_view where) {
  if (json.is_string()) {  // as CharDelimiterSplit and old files write it
    if (json.get<std::string>().empty()) throw BadCheckpoint(where, "expected a pattern, got an empty string");
    return json.get<std::string>();
  }
  const JsonFields fields(json, "a pattern", where);
  fields.allow({"String", "Regex"});
  if (fields.find("Regex") != nullptr) return Regex(fields.string("Regex"), RegexSyntax::oniguruma, where);
  std::string string = fields.string("String");
  if (string.empty()) throw BadCheckpoint(where, "expected a pattern, got an empty string");
  return string;
}

std::string checked_size(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  throw OutOfCapacity("tokenizer", "expected at most {} bytes after the tokenizer's rules, got {}", most, text.size());
}

std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most) {
  most = std::max(most, text.size());
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;
  const auto replace = [&](std::size_t begin, std::size_t end) {
    if (out.size() > most || content.size() > most) {
      throw OutOfCapacity("tokenizer", "expected at most {} bytes after replacing by {} bytes, got more", most,
                          content.size());
    }
    out.append(text.substr(copied, begin - copied)).append(content);
    copied = end;
  };
  if (const auto* regex = std::get_if<Regex>(&pattern)) {
    regex->for_each_match(text, [&](Regex::Match m) { replace(m.begin, m.end); });
  } else {
    const std::string& string = std::get<std::string>(pattern);
    for (std::size_t i = text.find(string); i != text.npos; i = text.find(string, i + string.size())) {
      replace(i, i + string.size());
    }
  }
  return checked_size(std::move(out.append(text.substr(copied))), most);
}

std::string decode_base64(std::string_view text, std::string_view where) {
  const auto value = [](char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
  };
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (char c : text) {
    if (value(c) < 0) throw BadCheckpoint(where, "a text is not valid base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value(c));
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>(bits >> n_bits & 0xFF));
  }
  if (text.size() % 4 == 1) throw BadCheckpoint(where, "a text is not valid base64");
  return out;
}

}  // namespace vitrine
