#include "tokenizer/read/tokenizer_config.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace vitrine {

std::string special_token_name(const JsonFields& config, std::string_view key, std::string_view fallback) {
  const Json* json = config.find(key);
  if (json == nullptr || !json->is_object()) return config.string(key, fallback);
  return JsonFields(*json, key, config.where()).string("content");
}

Json added_tokens_of(const JsonFields& config) {
  Json tokens = Json::array();
  const Json* by_id = config.find("added_tokens_decoder");
  if (by_id == nullptr) return tokens;
  if (!by_id->is_object()) {
    throw BadCheckpoint(config.where(), "expected an object as added_tokens_decoder, got {}", by_id->type_name());
  }
  for (const auto& [id, entry] : by_id->items()) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (!entry.is_object() || error != std::errc() || end != id.data() + id.size()) {
      throw BadCheckpoint(config.where(), "expected ids and tokens in added_tokens_decoder, got \"{}\"", id);
    }
    Json token = entry;
    token["id"] = number;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace vitrine
