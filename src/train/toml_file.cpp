#include "train/toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace vitrine {
namespace {

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

class Converter {
 public:
  Converter(const std::string& path, std::map<std::string, int>& lines) : path_(path), lines_(lines) {}

  Json table(const toml::table& from, const std::string& prefix) {
    Json object = Json::object();
    for (const auto& [key, node] : from) {
      const std::string name(key.str());
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
    if (const auto text = node.value_exact<std::string>()) return *text;
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

constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of UTF-8, which may stand in front

/// Walks over a text as TOML cuts it, and refuses what leads toml++ 3.3 into undefined behavior: control characters,
/// and letters beyond ASCII where its table of white space is asked (outside quotes and comments, and behind a line
/// that a backslash continues). TOML has the latter alone.
class Precheck {
 public:
  Precheck(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  void run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (c == '"' || c == '\'') {
        const bool follows_word = at_ > 0 && std::string_view(" \t\r\n=[{,.").find(text_[at_ - 1]) == text_.npos;
        if (follows_word) throw BadInput(path_ + ":" + std::to_string(line_), "a quote cannot follow a word");
        quoted(c);
      } else {
        refuse_letter();
        step();
      }
    }
  }

 private:
  /// A string from its first quote on; one that does not end is the parser's to refuse.
  void quoted(char quote) {
    const std::string triple(3, quote);
    const bool is_long = text_.substr(at_, 3) == triple;
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      if (is_long ? text_.substr(at_, 3) == triple : text_[at_] == quote) break;
      if (!is_long && text_[at_] == '\n') return;
      const bool escapes = quote == '"' && text_[at_] == '\\';
      step();
      if (escapes && at_ < text_.size()) refuse_letter();  // no escape begins with one
      if (escapes && !(is_long && continued_line()) && at_ < text_.size()) step();
    }
    at_ = std::min(text_.size(), at_ + (is_long ? 3 : 1));
    for (int i = 0; is_long && i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;  // quotes before the end
  }

  /// Behind a backslash: where only white space is left of the line, all of it up to the next word.
  bool continued_line() {
    const std::size_t end = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    if (text_.substr(at_, end - at_).find('\n') == std::string_view::npos) return false;
    while (at_ < end) step();
    if (at_ < text_.size()) refuse_letter();
    return true;
  }

  void refuse_letter() const {
    if (static_cast<unsigned char>(text_[at_]) < 0x80) return;
    throw BadInput(path_ + ":" + std::to_string(line_), "letters beyond ASCII stand in quotes and comments alone");
  }

  void step() {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    const bool fits = (byte >= 0x20 && byte != 0x7F) || byte == '\t' || byte == '\n' || byte == '\r';
    if (!fits) {
      throw BadInput(path_ + ":" + std::to_string(line_), "expected text, got a control character (code {})",
                     int{byte});
    }
    if (byte == '\n') ++line_;
    ++at_;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

TomlFile parse_toml(std::string_view text, const std::string& path) {
  Precheck(text.starts_with(kMark) ? text.substr(kMark.size()) : text, path).run();
  TomlFile file;
  try {
    file.values = Converter(path, file.lines).table(toml::parse(text, path), "");
  } catch (const toml::parse_error& e) {
    throw BadInput(path + ":" + std::to_string(e.source().begin.line), "{}", e.description());
  }
  return file;
}

}  // namespace vitrine
