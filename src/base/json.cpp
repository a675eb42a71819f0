#include "base/json.h"

#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace vitrine {

Json parse_json(std::string_view text, std::string_view where) {
  constexpr int kMaxDepth = 64;
  constexpr int kMaxValues = 1 << 20;  // a value of two bytes takes up to 80 in memory
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  int n_values = 0;
  const auto check = [&](int depth, Event event, Json& parsed) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= kMaxDepth) throw BadCheckpoint(where, "JSON is nested deeper than {}", kMaxDepth);
    if ((opens || event == Event::value) && ++n_values > kMaxValues) {
      throw BadCheckpoint(where, "expected at most {} JSON values", kMaxValues);
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw BadCheckpoint(where, "key \"{}\" stands twice in one object", parsed.get<std::string>());
    }
    return true;
  };
  // The parser takes a NUL for the end and would pass over what follows.
  if (text.find('\0') != std::string_view::npos) throw BadCheckpoint(where, "not valid JSON: it holds a NUL byte");
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& e) {
    throw BadCheckpoint(where, "not valid JSON: {}", e.what());
  }
}

}  // namespace vitrine
