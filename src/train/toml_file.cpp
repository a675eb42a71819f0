#include "train/toml_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";  // the byte order mark of UTF-8

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

int line_at(std::string_view text, std::size_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// toml++ 3.3 has undefined behavior at control characters, and at characters beyond ASCII when it looks them up in its
// table of white space. So it gets ASCII only: ~ and all bytes beyond ASCII are encoded as ~ and two hexadecimal digits
// (é as ~c3~a9), and decoded in the values. TOML allows neither outside quotes and comments, so no meaning changes.

std::string to_ascii(std::string_view text, const std::string& path) {
  const auto refuse = [&](std::size_t at, const std::string& why) {
    throw BadInput(path + ":" + std::to_string(line_at(text, at)), "{}", why);
  };
  if (const std::size_t valid = valid_prefix(text); valid < text.size()) refuse(valid, "expected UTF-8");
  std::string ascii;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_space = byte == '\t' || byte == '\n' || byte == '\r';
    if ((byte < 0x20 && !is_space) || byte == 0x7F)
      refuse(i, fmt::format("expected text, got control character {}", byte));
    for (const std::string_view escape : {"\\u007e", "\\u007E", "\\U0000007e", "\\U0000007E"}) {
      if (text.substr(i).starts_with(escape)) refuse(i, "write ~ as it is, not as an escape");
    }
    if (byte >= 0x80 || byte == '~') {
      ascii += fmt::format("~{:02x}", byte);
    } else {
      ascii += text[i];
    }
  }
  return ascii;
}

std::string from_ascii(std::string_view ascii) {
  std::string text;
  for (std::size_t i = 0; i < ascii.size(); ++i) {
    unsigned byte = 0;
    const char* digits = ascii.data() + i + 1;
    const bool is_code =
        ascii[i] == '~' && ascii.size() - i > 2 && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    text += is_code ? static_cast<char>(byte) : ascii[i];
    if (is_code) i += 2;
  }
  return text;
}

class Converter {
 public:
  Converter(const std::string& path, std::map<std::string, int>& lines) : path_(path), lines_(lines) {}

  Json table(const toml::table& from, const std::string& prefix) {
    Json object = Json::object();
    for (const auto& [key, node] : from) {
      const std::string name = from_ascii(key.str());
      const std::string full = prefix.empty() ? name : prefix + "." + name;
      lines_[full] = static_cast<int>(key.source().begin.line);
      object[name] = value(node, full);
    }
    return object;
  }

 private:
  Json value(const toml::node& node, const std::string& name) {
    if (const toml::table* table_node = node.as_table()) return table(*table_node, name);
    if (const toml::array* list = node.as_array()) {
      Json array = Json::array();
      for (const toml::node& element : *list) array.push_back(value(element, name));
      return array;
    }
    if (const auto text = node.value_exact<std::string>()) return from_ascii(*text);
    if (const auto flag = node.value_exact<bool>()) return *flag;
    if (const auto integer = node.value_exact<std::int64_t>()) return *integer;
    const auto number = node.value_exact<double>();
    if (number && std::isfinite(*number)) return *number;
    throw BadInput(path_ + ":" + std::to_string(line_of(node)),
                   "{}: expected text, a finite number, true or false, a list or a table", name);
  }

  const std::string& path_;
  std::map<std::string, int>& lines_;
};

}  // namespace

TomlFile parse_toml(std::string_view text, const std::string& path) {
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  TomlFile file;
  try {
    file.values = Converter(path, file.lines).table(toml::parse(to_ascii(text, path), path), "");
  } catch (const toml::parse_error& e) {
    const std::string why = from_ascii(e.description());
    const bool at_letter = why.find("~'") != why.npos;  // toml++ quotes the unexpected character, here ~
    throw BadInput(path + ":" + std::to_string(e.source().begin.line), "{}",
                   at_letter ? "characters beyond ASCII, and ~, are allowed in quotes and comments only" : why);
  }
  return file;
}

}  // namespace vitrine
