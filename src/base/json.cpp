#include "base/json.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr int kMaxValues = 1 << 20;  // a value of two bytes takes up to 80 in memory

/// Builds the value as the parser meets its parts. (The library's own parser with a callback looks through a whole
/// object again after each object in it: minutes for the header of a hundred thousand tensors.)
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view where) : where_(where) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in text
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [entry, is_new] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    if (!is_new) throw BadCheckpoint(where_, "key \"{}\" stands twice in one object", name);
    last_ = &entry->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    throw BadCheckpoint(where_, "not valid JSON: {}", e.what());
  }

 private:
  bool add(Json value) {
    if (++n_values_ > kMaxValues) throw BadCheckpoint(where_, "expected at most {} JSON values", kMaxValues);
    if (open_.empty()) {
      last_ = &root_;
    } else if (open_.back()->is_array()) {
      last_ = &open_.back()->emplace_back();
    }  // else the key has made its place
    *last_ = std::move(value);
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaxDepth) throw BadCheckpoint(where_, "JSON is nested deeper than {}", kMaxDepth);
    add(std::move(value));
    open_.push_back(last_);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where_;
  Json root_;
  std::vector<Json*> open_;  // from the outside in
  Json* last_ = nullptr;     // where the last value stands, or the next one after a key
  int n_values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  // The parser takes a NUL for the end and would pass over what follows.
  if (text.find('\0') != std::string_view::npos) throw BadCheckpoint(where, "not valid JSON: it holds a NUL byte");
  Builder builder(where);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace vitrine
