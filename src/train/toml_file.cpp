#include "train/toml_file.h"

#include <toml++/toml.h>

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

}  // namespace

TomlFile parse_toml(std::string_view text, const std::string& path) {
  TomlFile file;
  try {
    file.values = Converter(path, file.lines).table(toml::parse(text, path), "");
  } catch (const toml::parse_error& e) {
    throw BadInput(path + ":" + std::to_string(e.source().begin.line), "{}", e.description());
  }
  return file;
}

}  // namespace vitrine
