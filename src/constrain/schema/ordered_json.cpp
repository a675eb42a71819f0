#include "constrain/schema/ordered_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "constrain/grammar.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

using Kind = OrderedJson::Kind;

/// Builds a value from the events of nlohmann's parser.
class OrderedBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit OrderedBuilder(std::string_view where) : where_(where) {}
  OrderedJson take() { return std::move(root_); }

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({.kind = Kind::boolean, .truth = value}); }
  /// Only negative numbers come here, and -0.
  bool number_integer(number_integer_t value) override {
    return add({.kind = Kind::number, .text = value == 0 ? "-0" : std::to_string(value)});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add({.kind = Kind::number, .text = std::to_string(value)});
  }
  bool number_float(number_float_t, const string_t& text) override { return add({.kind = Kind::number, .text = text}); }
  bool string(string_t& value) override { return add({.kind = Kind::string, .text = std::move(value)}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Kind::object); }
  bool start_array(std::size_t) override { return open(Kind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) {
      throw BadInput(where_, "key \"{}\" appears twice in one object", name);
    }
    open_.back().value->members.emplace_back(name, OrderedJson{});
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw BadInput(where_, "not valid JSON at byte {}", position);
  }

 private:
  struct Open {
    OrderedJson* value;
    std::set<std::string> keys;
  };
  OrderedJson* place(OrderedJson value) {
    constexpr int kMaxValues = 1 << 20;
    if (++n_values_ > kMaxValues) throw OutOfCapacity(where_, "expected at most {} JSON values", kMaxValues);
    OrderedJson* at = &root_;
    if (!open_.empty() && open_.back().value->is(Kind::array)) {
      at = &open_.back().value->items.emplace_back();
    } else if (!open_.empty()) {
      at = &open_.back().value->members.back().second;
    }
    *at = std::move(value);
    return at;
  }
  bool add(OrderedJson value) {
    place(std::move(value));
    return true;
  }
  bool open(Kind kind) {
    if (open_.size() >= static_cast<std::size_t>(kMaxNesting)) {
      throw OutOfCapacity(where_, "expected at most {} levels of nesting", kMaxNesting);
    }
    open_.push_back({place({.kind = kind}), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where_;
  OrderedJson root_;
  std::vector<Open> open_;  // outermost first
  int n_values_ = 0;
};

/// `%41` → A, then `~1` → / and `~0` → ~.
std::string decoded(std::string_view part) {
  std::string bytes;
  for (std::size_t i = 0; i < part.size(); ++i) {
    unsigned value = 0;
    if (part[i] == '%' && i + 2 < part.size() &&
        part.substr(i + 1, 2).find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos) {
      value = static_cast<unsigned>(std::stoul(std::string(part.substr(i + 1, 2)), nullptr, 16));
      bytes += static_cast<char>(value);
      i += 2;
    } else {
      bytes += part[i];
    }
  }
  std::string name;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape = bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    name += is_escape ? (bytes[++i] == '0' ? '~' : '/') : bytes[i];
  }
  return name;
}

}  // namespace

const OrderedJson* OrderedJson::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

OrderedJson parse_ordered_json(std::string_view text, std::string_view where) {
  if (!is_valid_utf8(text)) throw BadInput(where, "expected UTF-8");
  if (text.find('\0') != std::string_view::npos) throw BadInput(where, "not valid JSON: it contains a NUL byte");
  OrderedBuilder builder(where);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string json_text(const OrderedJson& value) {
  switch (value.kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return value.truth ? "true" : "false";
    case Kind::number:
      return value.text;
    case Kind::string:
      return json_string(value.text);
    default:
      break;
  }
  std::string text;
  for (const OrderedJson& item : value.items) text += (text.empty() ? "" : ",") + json_text(item);
  for (const auto& [name, member] : value.members) {
    text += (text.empty() ? "" : ",") + json_string(name) + ":" + json_text(member);
  }
  return value.is(Kind::array) ? "[" + text + "]" : "{" + text + "}";
}

std::string json_escape(std::uint32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", c);
  }
}

std::string json_string(std::string_view text) {
  std::string spelled = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    spelled += byte < 0x20 || c == '"' || c == '\\' ? json_escape(byte) : std::string(1, c);
  }
  return spelled + '"';
}

void JsonPointers::add(const OrderedJson& value) const {
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    parents_[&value.items[i]] = {&value, i};
    add(value.items[i]);
  }
  for (std::size_t i = 0; i < value.members.size(); ++i) {
    parents_[&value.members[i].second] = {&value, i};
    add(value.members[i].second);
  }
}

std::string JsonPointers::of(const OrderedJson& place) const {
  if (parents_.empty()) add(root_);
  std::string path;
  for (auto at = parents_.find(&place); at != parents_.end(); at = parents_.find(at->second.value)) {
    const auto [parent, index] = at->second;
    std::string step = "/";
    if (parent->is(Kind::array)) {
      step += std::to_string(index);
    } else {
      for (const char c : parent->members[index].first) step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    path.insert(0, step);
  }
  return "#" + path;
}

const OrderedJson* follow_pointer(const OrderedJson& root, std::string_view pointer) {
  if (!pointer.starts_with("#")) return nullptr;
  pointer.remove_prefix(1);
  const OrderedJson* at = &root;
  while (!pointer.empty() && at != nullptr) {
    if (pointer[0] != '/') return nullptr;
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string name = decoded(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is(Kind::array)) {
      const bool is_index =
          !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == std::string::npos;
      const std::size_t index = is_index ? std::stoul(name) : at->items.size();
      at = index < at->items.size() ? &at->items[index] : nullptr;
    } else {
      at = at->find(name);
    }
  }
  return at;
}

}  // namespace vitrine::constrain
