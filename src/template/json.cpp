#include "template/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Renderer& renderer, const JsonStyle& style) : renderer_(renderer), style_(style) {}

  void write(const Value& value, int level = 0) {
    const Depth depth;
    renderer_.step();
    switch (value.kind) {
      case Kind::none:
        out_ += "null";
        return;
      case Kind::boolean:
        out_ += value.boolean ? "true" : "false";
        return;
      case Kind::integer:
      case Kind::real:
        out_ += number(value);
        return;
      case Kind::string:
        return write_text(value.text());
      case Kind::list:
      case Kind::tuple:
        return write_list(value.list->items, level);
      case Kind::dict:
        return write_dict(*value.dict, level);
      default:
        throw type_error("Object of type {} is not JSON serializable", type_name(value));
    }
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string number(const Value& value) {
    if (!value.is(Kind::real)) return std::to_string(value.as_integer());
    if (std::isnan(value.real)) return "NaN";
    if (std::isinf(value.real)) return value.real < 0 ? "-Infinity" : "Infinity";
    return real_text(value.real);
  }

  void write_text(std::string_view text) {
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7F || !style_.ascii)) {
        out_ += text[at++];
        continue;
      }
      write_escape(next_character(text, at));
    }
    out_ += '"';
  }

  void write_escape(char32_t c) {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
    const std::size_t simple = c < 0x80 ? kFrom.find(static_cast<char>(c)) : kFrom.npos;
    const auto code = static_cast<unsigned>(c);
    if (simple != kFrom.npos) {
      out_ += '\\';
      out_ += kTo[simple];
    } else if (code < 0x10000) {
      out_ += fmt::format("\\u{:04x}", code);
    } else {
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }

  void write_line(int level) {
    if (!style_.is_indented) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += style_.indent;
    renderer_.heap().check(out_.size());
  }

  template <class Items, class Write>
  void write_items(const Items& items, char open, char close, int level, Write write_item) {
    out_ += open;
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out_ += style_.item_separator;
      is_first = false;
      write_line(level + 1);
      write_item(item);
    }
    if (!is_first) write_line(level);
    out_ += close;
  }

  void write_list(const std::pmr::vector<Value>& items, int level) {
    write_items(items, '[', ']', level, [&](const Value& item) { write(item, level + 1); });
  }

  void write_dict(const Dict& dict, int level) {
    std::vector<Dict::Entry> entries(dict.entries.begin(), dict.entries.end());
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return less(a.key, b.key); });
    }
    write_items(entries, '{', '}', level, [&](const Dict::Entry& entry) {
      write_key(entry.key);
      out_ += style_.key_separator;
      write(entry.value, level + 1);
    });
  }

  void write_key(const Value& key) {
    switch (key.kind) {
      case Kind::string:
        return write_text(key.text());
      case Kind::none:
        out_ += "\"null\"";
        return;
      case Kind::boolean:
        out_ += key.boolean ? "\"true\"" : "\"false\"";
        return;
      case Kind::integer:
      case Kind::real:
        out_ += '"' + number(key) + '"';
        return;
      default:
        throw type_error("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  Renderer& renderer_;
  const JsonStyle& style_;
  std::string out_;
};

/// Builds values from the events of the parser.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonReader(Heap& heap, std::string_view where) : heap_(heap), where_(where) {}

  bool null() override { return add(jinja::none()); }
  bool boolean(bool value) override { return add(jinja::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > number_unsigned_t{INT64_MAX}) fail_size();
    return add(integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == text.npos) fail_size();
    return add(real(value));
  }
  bool string(string_t& value) override { return add(jinja::string(heap_, value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(jinja::dict(heap_.make<Dict>(heap_))); }
  bool start_array(std::size_t) override { return open(jinja::list(heap_.make<List>(heap_))); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    keys_.back() = jinja::string(heap_, name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw BadInput(where_, "not valid JSON at byte {}", position);
  }
  Value take() const { return root_; }

 private:
  static constexpr std::size_t kMaxDepth = 200;

  [[noreturn]] void fail_size() const { throw BadInput(where_, "expected integers of at most 64 bits"); }
  bool add(const Value& value) {
    if (open_.empty()) {
      root_ = value;
    } else if (open_.back().is(Kind::list)) {
      open_.back().list->items.push_back(value);
    } else {
      open_.back().dict->set(keys_.back(), value);
    }
    return true;
  }
  bool open(const Value& value) {
    if (open_.size() >= kMaxDepth) throw BadInput(where_, "JSON is nested deeper than {}", kMaxDepth);
    add(value);
    open_.push_back(value);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  Heap& heap_;
  std::string_view where_;
  Value root_ = jinja::none();
  std::vector<Value> open_, keys_;
};

}  // namespace

std::string to_json(Renderer& renderer, const Value& value, const JsonStyle& style) {
  JsonWriter writer(renderer, style);
  writer.write(value);
  return writer.take();
}

Value parse_json_value(Heap& heap, std::string_view text, std::string_view where) {
  // The parser treats NUL as the end of the text and would ignore everything after it.
  if (text.find('\0') != text.npos) throw BadInput(where, "not valid JSON: it contains a NUL byte");
  JsonReader reader(heap, where);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace vitrine::jinja
