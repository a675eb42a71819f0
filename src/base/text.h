// Text: its parts, and the numbers in it.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace vitrine {

/// The number that the whole text spells, as std::from_chars reads it; std::nullopt for any other text, and for a
/// number that does not fit T.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// The parts between separators, one more than there are separators.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(separator); end != text.npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace vitrine
