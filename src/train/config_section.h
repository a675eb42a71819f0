// One table of a training config. Unknown keys are errors.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "train/toml_file.h"

namespace vitrine {

/// Reads keys of a table and remembers them. A missing key gives `otherwise`. Throws BadInput, with the line, for a
/// value of the wrong type or range.
class ConfigSection {
 public:
  /// The table `name` of `file`; an absent table has no keys. `path` names the file in messages. Both must outlive the
  /// section.
  ConfigSection(const TomlFile& file, const std::string& path, std::string name);

  bool has(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t otherwise, std::int64_t lowest,
                       std::int64_t highest = std::numeric_limits<std::int64_t>::max());
  std::int64_t integer(const std::string& key, std::int64_t lowest);  ///< Throws if the key is missing.
  double number(const std::string& key, double otherwise, double lowest, double highest);
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  std::string text(const std::string& key);  ///< Throws if the key is missing or empty.
  std::vector<std::string> texts(const std::string& key);
  std::vector<std::int64_t> integers(const std::string& key);  ///< A list of whole numbers from 0.
  std::vector<double> numbers(const std::string& key);         ///< A list of numbers from 0.
  bool is_list(const std::string& key);
  bool is_table(const std::string& key);
  const Json* table(const std::string& key);  ///< Null if the key is missing.

  /// The value of the choice named at `key`; that of the first choice if the key is missing.
  template <class T>
  T choice(const std::string& key, const std::vector<std::pair<std::string, T>>& choices) {
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) names.push_back(name);
    return choices[index_of(key, names)].second;
  }

  /// Throws if the key is present; `reason` says why it has no effect.
  void refuse(const std::string& key, const std::string& reason);
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;
  /// Throws for a key that was not read, and suggests the nearest key that was.
  void finish() const;

  /// The keys that were read, in the order of reading.
  const std::vector<std::string>& known() const { return known_; }

 private:
  const Json* find(const std::string& key);
  void require(const std::string& key);
  std::size_t index_of(const std::string& key, const std::vector<std::string>& names);

  const TomlFile& file_;
  const std::string& path_;
  std::string name_;
  const Json* values_ = nullptr;
  std::vector<std::string> known_;
};

}  // namespace vitrine
