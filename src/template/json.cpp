#include "template/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
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
      case Kind::boolean:
      case Kind::integer:
      case Kind::real:
        out_ += word(value);
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
  /// None, a boolean or a number.
  static std::string word(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is(Kind::boolean)) return value.boolean ? "true" : "false";
    if (value.is(Kind::integer)) return std::to_string(value.integer);
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
    if (key.is_string()) return write_text(key.text());
    if (!key.is_none() && !key.is_number()) {
      throw type_error("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    out_ += '"' + word(key) + '"';
  }

  Renderer& renderer_;
  const JsonStyle& style_;
  std::string out_;
};

/// Reads JSON. Requests carry whole templates as strings, so strings are read in long runs.
class JsonReader {
 public:
  JsonReader(Heap& heap, std::string_view text, std::string_view where) : heap_(heap), text_(text), where_(where) {}

  Value run() {
    const Value value = read_value(0);
    skip_space();
    if (at_ < text_.size()) fail();
    return value;
  }

 private:
  static constexpr int kMaxDepth = 200;

  [[noreturn]] void fail() const { throw BadInput(where_, "not valid JSON at byte {}", at_ + 1); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    const bool found = at_ < text_.size() && text_[at_] == c;
    at_ += found;
    return found;
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }

  Value read_value(int depth) {
    if (depth > kMaxDepth) throw BadInput(where_, "JSON is nested deeper than {}", kMaxDepth);
    skip_space();
    switch (peek()) {
      case '{':
        return read_object(depth);
      case '[':
        return read_array(depth);
      case '"':
        return borrowed(heap_, read_string());
      case 't':
        return read_word("true", jinja::boolean(true));
      case 'f':
        return read_word("false", jinja::boolean(false));
      case 'n':
        return read_word("null", jinja::none());
      default:
        return read_number();
    }
  }

  Value read_word(std::string_view word, const Value& value) {
    if (text_.substr(at_, word.size()) != word) fail();
    at_ += word.size();
    return value;
  }

  Value read_object(int depth) {
    Dict* const made = heap_.make<Dict>(heap_);
    ++at_;
    skip_space();
    if (take('}')) return dict(made);
    do {
      skip_space();
      if (peek() != '"') fail();
      const Value key = borrowed(heap_, read_string());
      skip_space();
      if (!take(':')) fail();
      made->set(key, read_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take('}')) fail();
    return dict(made);
  }

  Value read_array(int depth) {
    List* const made = heap_.make<List>(heap_);
    ++at_;
    skip_space();
    if (take(']')) return list(made);
    do {
      made->items.push_back(read_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take(']')) fail();
    return list(made);
  }

  std::size_t digits() {
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ - begin;
  }

  Value read_number() {
    const std::size_t begin = at_;
    take('-');
    const bool has_zero = peek() == '0';
    const std::size_t n = digits();
    if (n == 0 || (has_zero && n > 1)) fail();
    bool is_real = false;
    if (take('.')) {
      is_real = true;
      if (digits() == 0) fail();
    }
    if (take('e') || take('E')) {
      is_real = true;
      if (!take('-')) take('+');
      if (digits() == 0) fail();
    }
    const std::string_view number = text_.substr(begin, at_ - begin);
    if (is_real) return real(parse_real(number).value());
    const auto value = number_in<std::int64_t>(number);
    if (!value) throw BadInput(where_, "expected integers of at most 64 bits");
    return integer(*value);
  }

  /// The string that begins at the quote at `at_`, as long as the heap.
  std::string_view read_string() {
    const std::size_t begin = ++at_;
    skip_plain();
    if (peek() == '"') return heap_.copy(text_.substr(begin, at_++ - begin));
    std::string decoded(text_.substr(begin, at_ - begin));
    while (!take('"')) {
      if (!take('\\')) fail();
      read_escape(decoded);
      const std::size_t next = at_;
      skip_plain();
      decoded += text_.substr(next, at_ - next);
    }
    return heap_.copy(decoded);
  }

  /// Moves to the next quote, backslash or control character. Checks that the text before it is UTF-8.
  void skip_plain() {
    const std::size_t begin = at_;
    unsigned char any = 0;
    for (; at_ < text_.size(); ++at_) {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte == '"' || byte == '\\' || byte < 0x20) break;
      any |= byte;
    }
    if (any >= 0x80 && !is_utf8(text_.substr(begin, at_ - begin))) fail();
  }

  void read_escape(std::string& out) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    const std::size_t simple = kFrom.find(peek());
    if (simple != kFrom.npos) {
      ++at_;
      out += kTo[simple];
      return;
    }
    char32_t c = read_unit();
    if (c >= 0xD800 && c < 0xDC00 && take('\\')) {
      const char32_t low = read_unit();
      if (low < 0xDC00 || low >= 0xE000) fail();
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (c >= 0xD800 && c < 0xE000) fail();
    append_character(out, c);
  }

  /// The four hexadecimal digits after `u`.
  char32_t read_unit() {
    if (!take('u') || text_.size() - at_ < 4) fail();
    std::uint32_t unit = 0;
    const char* const begin = text_.data() + at_;
    if (std::from_chars(begin, begin + 4, unit, 16).ptr != begin + 4) fail();
    at_ += 4;
    return unit;
  }

  Heap& heap_;
  std::string_view text_, where_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_json(Renderer& renderer, const Value& value, const JsonStyle& style) {
  JsonWriter writer(renderer, style);
  writer.write(value);
  return writer.take();
}

Value parse_json_value(Heap& heap, std::string_view text, std::string_view where) {
  return JsonReader(heap, text, where).run();
}

}  // namespace vitrine::jinja
