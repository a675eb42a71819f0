// Names of tensors by pattern: `{l}` is the layer, `{e}` the expert, `{h}` the head, `{p}` a prefix.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vitrine {

inline std::string with_replaced(std::string_view pattern, std::string_view mark, std::string_view text) {
  const std::size_t at = pattern.find(mark);
  if (at == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, at)) + std::string(text) + std::string(pattern.substr(at + mark.size()));
}

inline std::string with_layer(std::string_view pattern, std::int64_t layer) {
  return with_replaced(pattern, "{l}", std::to_string(layer));
}

inline std::string with_head(std::string_view pattern, std::int64_t head) {
  return with_replaced(pattern, "{h}", std::to_string(head));
}

inline std::string with_prefix(std::string_view pattern, std::string_view prefix) {
  return with_replaced(pattern, "{p}", prefix);
}

}  // namespace vitrine
