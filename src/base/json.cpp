#include "base/json.h"

#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace vitrine {

Json parse_json(std::string_view text, std::string_view where) {
  constexpr int kMaxDepth = 64;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw BadCheckpoint(where, "JSON is nested deeper than {}", kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw BadCheckpoint(where, "key \"{}\" stands twice in one object", parsed.get<std::string>());
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& e) {
    throw BadCheckpoint(where, "not valid JSON: {}", e.what());
  }
}

}  // namespace vitrine
