#include "tokenizer/pattern.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/json_fields.h"

namespace vitrine {

Pattern parse_pattern(const Json& json, std::string_view where) {
  if (json.is_string()) {  // in CharDelimiterSplit and older files
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
  throw OutOfCapacity("tokenizer", "expected at most {} bytes after normalization, got {}", most, text.size());
}

std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most) {
  most = std::max(most, text.size());
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;
  const auto replace = [&](std::size_t begin, std::size_t end) {
    if (out.size() > most || content.size() > most) {
      throw OutOfCapacity("tokenizer", "expected at most {} bytes after replacements by {} bytes, got more", most,
                          content.size());
    }
    out.append(text.substr(copied, begin - copied)).append(content);
    copied = end;
  };
  for_each_match(pattern, text, [&](Regex::Match m) { replace(m.begin, m.end); });
  return checked_size(std::move(out.append(text.substr(copied))), most);
}

}  // namespace vitrine
