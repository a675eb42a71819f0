// The text that a call gives to a custom tool: a JSON text within the function's arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vitrine {

/// Reads arguments such as `{"input": "…"}` piece by piece. What is handed out is the text without JSON's escapes, and
/// whole characters: an escape that is not complete is held back, and so is the first half of a surrogate pair.
class CustomInput {
 public:
  /// Takes the next piece of the arguments: whole characters of UTF-8. Returns what it adds to the text.
  std::string append(std::string_view arguments);
  /// Whether the text has ended.
  bool is_complete() const { return place_ == Place::after; }

 private:
  enum class Place : std::uint8_t { before, key, colon, text, escape, unicode, after };

  void read_value(char c, std::string& text);
  void read_escape(char c, std::string& text);
  void read_unicode(char c, std::string& text);
  void end_pair(std::string& text);

  Place place_ = Place::before;
  bool is_escaped_ = false;  // within the key
  std::uint32_t unit_ = 0, high_ = 0;
  int n_digits_ = 0;
};

}  // namespace vitrine
