#include "template/pretty.h"

#include <algorithm>

#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

constexpr std::int64_t kWidth = 80;

class Pretty {
 public:
  void write(const Value& value, std::int64_t indent, std::int64_t allowance) {
    const Depth depth;
    const std::string flat = one_line(value);
    const std::int64_t room = kWidth - indent - allowance;
    if (count_characters(flat) <= room) {
      out += flat;
    } else if (value.is(Kind::dict)) {
      write_dict(*value.dict, indent, allowance);
    } else if (value.is_sequence() && !value.list->is_group) {
      const bool is_list = value.is(Kind::list);
      const std::string_view end = is_list ? "]" : value.list->items.size() == 1 ? ",)" : ")";
      out += is_list ? '[' : '(';
      write_items(value.list->items, indent, allowance + static_cast<std::int64_t>(end.size()));
      out += end;
    } else if (value.is_string() && !value.is_markup()) {
      write_text(value.text(), indent, allowance);
    } else {
      out += flat;
    }
    is_top_ = false;
  }
  std::string out;

 private:
  static std::vector<Dict::Entry> sorted(const Dict& dict) {
    std::vector<Dict::Entry> entries(dict.entries.begin(), dict.entries.end());
    std::stable_sort(entries.begin(), entries.end(), [](const Dict::Entry& a, const Dict::Entry& b) {
      const bool comparable = (a.key.is_number() && b.key.is_number()) || (a.key.is_string() && b.key.is_string());
      if (comparable) return less(a.key, b.key);
      return a.key.kind != b.key.kind && type_name(a.key) < type_name(b.key);
    });
    return entries;
  }

  /// repr() with sorted keys.
  static std::string one_line(const Value& value) {
    const Depth depth;
    std::string text;
    if (value.is(Kind::dict)) {
      text = "{";
      for (const Dict::Entry& entry : sorted(*value.dict)) {
        if (text.size() > 1) text += ", ";
        text += one_line(entry.key) + ": " + one_line(entry.value);
      }
      return text + "}";
    }
    if (!value.is_sequence()) return repr(value);
    text = value.is(Kind::list) ? "[" : "(";
    for (const Value& item : value.list->items) {
      if (text.size() > 1) text += ", ";
      text += one_line(item);
    }
    return text + (value.is(Kind::list) ? "]" : value.list->items.size() == 1 ? ",)" : ")");
  }

  void new_line(std::int64_t indent) {
    out += '\n';
    out.append(static_cast<std::size_t>(indent), ' ');
  }

  void write_items(const std::pmr::vector<Value>& items, std::int64_t indent, std::int64_t allowance) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        out += ',';
        new_line(indent + 1);
      }
      is_top_ = false;
      write(items[i], indent + 1, i + 1 == items.size() ? allowance : 1);
    }
  }

  void write_dict(const Dict& dict, std::int64_t indent, std::int64_t allowance) {
    out += '{';
    const std::vector<Dict::Entry> entries = sorted(dict);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) {
        out += ',';
        new_line(indent + 1);
      }
      const std::string key = one_line(entries[i].key);
      out += key + ": ";
      is_top_ = false;
      write(entries[i].value, indent + 1 + count_characters(key) + 2, i + 1 == entries.size() ? allowance + 1 : 1);
    }
    out += '}';
  }

  /// A long string as several literals, divided at line ends and between words.
  void write_text(std::string_view text, std::int64_t indent, std::int64_t allowance) {
    const bool in_parentheses = is_top_;
    if (in_parentheses) {
      ++indent;
      ++allowance;
    }
    const std::vector<std::string_view> lines = split_lines(text, true);
    std::vector<std::string> chunks;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool is_last_line = i + 1 == lines.size();
      std::int64_t room = kWidth - indent - (is_last_line ? allowance : 0);
      const std::string flat = repr_text(lines[i]);
      if (count_characters(flat) <= room) {
        chunks.push_back(flat);
        continue;
      }
      std::string current;
      const std::vector<std::string_view> words = words_of(lines[i]);
      for (std::size_t j = 0; j < words.size(); ++j) {
        const std::string candidate = current + std::string(words[j]);
        room = kWidth - indent - (is_last_line && j + 1 == words.size() ? allowance : 0);
        if (count_characters(repr_text(candidate)) > room) {
          if (!current.empty()) chunks.push_back(repr_text(current));
          current = words[j];
        } else {
          current = candidate;
        }
      }
      if (!current.empty()) chunks.push_back(repr_text(current));
    }
    if (chunks.size() == 1) {
      out += chunks[0];
      return;
    }
    if (in_parentheses) out += '(';
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(indent);
      out += chunks[i];
    }
    if (in_parentheses) out += ')';
  }

  /// Words with the white space after each: \S*\s*.
  static std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    std::size_t begin = 0;
    bool after_space = false;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t here = at;
      const bool space = is_space(next_character(line, at));
      if (!space && after_space) {
        words.push_back(line.substr(begin, here - begin));
        begin = here;
      }
      after_space = space;
    }
    if (begin < line.size()) words.push_back(line.substr(begin));
    return words;
  }

  bool is_top_ = true;
};

}  // namespace

std::string pretty(const Value& value) {
  Pretty writer;
  writer.write(value, 0, 0);
  return std::move(writer.out);
}

}  // namespace vitrine::jinja
