#include "base/markup.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vitrine {

std::string markup_escaped(std::string_view text) {
  constexpr std::pair<char, const char*> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (const char c : text) {
    const auto* entity =
        std::find_if(std::begin(kEntities), std::end(kEntities), [c](auto& e) { return e.first == c; });
    if (entity != std::end(kEntities)) {
      result += entity->second;
    } else {
      result += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return result;
}

std::string script_json(const Json& value) {
  std::string result;
  for (const char c : value.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace vitrine
