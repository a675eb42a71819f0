// Builds GGUF files for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"

namespace vitrine::test {

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

class GgufFile {
 public:
  static std::string string(std::string_view text) { return raw(std::uint64_t{text.size()}) + std::string(text); }

  GgufFile& add(std::string_view key, GgufType type, const std::string& value) {
    body_ += string(key) + raw(static_cast<std::uint32_t>(type)) + value;
    ++n_keys_;
    return *this;
  }
  GgufFile& add(std::string_view key, std::string_view text) { return add(key, GgufType::string, string(text)); }
  GgufFile& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  GgufFile& add(std::string_view key, bool value) { return add(key, GgufType::boolean, raw(std::uint8_t{value})); }
  GgufFile& add(std::string_view key, std::uint32_t value) { return add(key, GgufType::u32, raw(value)); }
  GgufFile& add(std::string_view key, const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) all += string(text);
    return add_array(key, GgufType::string, texts.size(), all);
  }
  GgufFile& add(std::string_view key, const std::vector<float>& numbers) {
    std::string all;
    for (const float number : numbers) all += raw(number);
    return add_array(key, GgufType::f32, numbers.size(), all);
  }
  GgufFile& add(std::string_view key, const std::vector<std::int32_t>& numbers) {
    std::string all;
    for (const std::int32_t number : numbers) all += raw(number);
    return add_array(key, GgufType::i32, numbers.size(), all);
  }
  GgufFile& add_array(std::string_view key, GgufType element, std::uint64_t count, const std::string& elements) {
    return add(key, GgufType::array, raw(static_cast<std::uint32_t>(element)) + raw(count) + elements);
  }

  std::string bytes(std::uint32_t version = 3) const {
    return "GGUF" + raw(version) + raw(std::uint64_t{0}) + raw(n_keys_) + body_;
  }

 private:
  std::uint64_t n_keys_ = 0;
  std::string body_;
};

}  // namespace vitrine::test
