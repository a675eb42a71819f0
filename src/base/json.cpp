#include "base/json.h"

#include <utility>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxJsonDepth = 64;
constexpr int kMaxValues = 1 << 20;  // a value of two bytes takes up to 80 bytes of memory

}  // namespace

bool JsonBuilder::key(string_t& name) {
  const auto [entry, is_new] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
  if (!is_new) throw BadCheckpoint(where_, "key \"{}\" appears twice in one object", name);
  last_ = &entry->second;
  return true;
}

bool JsonBuilder::parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
  throw BadCheckpoint(where_, "not valid JSON at byte {}", position);
}

bool JsonBuilder::add(Json value) {
  if (++n_values_ > kMaxValues) throw BadCheckpoint(where_, "expected at most {} JSON values", kMaxValues);
  if (open_.empty()) {
    last_ = &root_;
  } else if (open_.back()->is_array()) {
    last_ = &open_.back()->emplace_back();
  }  // if the parent is an object, key() has already inserted the entry
  *last_ = std::move(value);
  return true;
}

bool JsonBuilder::open(Json value) {
  if (open_.size() >= kMaxJsonDepth) throw BadCheckpoint(where_, "JSON is nested deeper than {}", kMaxJsonDepth);
  add(std::move(value));
  open_.push_back(last_);
  return true;
}

void JsonBuilder::parse(std::string_view text) {
  // The parser treats NUL as the end of the text and would ignore everything after it.
  if (text.find('\0') != std::string_view::npos) throw BadCheckpoint(where_, "not valid JSON: it contains a NUL byte");
  Json::sax_parse(text.begin(), text.end(), this);
}

Json parse_json(std::string_view text, std::string_view where) {
  JsonBuilder builder(where);
  builder.parse(text);
  return builder.take();
}

}  // namespace vitrine
