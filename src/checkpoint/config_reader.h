// A config.json of which every key is either used or known to be without effect: nothing is passed over in silence.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace vitrine {

/// Reads keys of one JSON object and remembers which. null counts as absent. A value of the wrong type throws
/// BadCheckpoint, naming the key.
class ConfigReader {
 public:
  /// `where` names the file in errors; `allowed`: unknown keys that are passed over, here and in objects inside.
  ConfigReader(const Json& object, std::string where, std::vector<std::string> allowed = {});

  bool stands(std::string_view key) const;  ///< The key is there, be it null.
  bool has(std::string_view key) const;     ///< The key is there and not null.
  /// From 1 to `most`. Throws where the key is missing.
  std::int64_t size(std::string_view key, std::int64_t most = (std::int64_t{1} << 31) - 1);
  std::int64_t size_or(std::string_view key, std::int64_t otherwise);
  std::optional<std::int64_t> optional_size(std::string_view key);
  double number_or(std::string_view key, double otherwise);
  std::optional<double> optional_number(std::string_view key);
  double number(std::string_view key);
  bool flag_or(std::string_view key, bool otherwise);
  std::string text_or(std::string_view key, std::string_view otherwise);
  std::vector<std::string> texts_or_empty(std::string_view key);
  std::vector<double> numbers(std::string_view key);               ///< A list. Throws where the key is missing.
  std::vector<std::int64_t> sizes_or_empty(std::string_view key);  ///< A list of whole numbers from 0.
  std::optional<ConfigReader> object(std::string_view key);

  /// The key may stand there but has no effect on what the model computes.
  void ignore(std::string_view key) { used_.emplace(key); }
  /// The key, if it stands there and is not null, must be false: we do not do what true asks for.
  void refuse(std::string_view key);
  /// Throws Unsupported for a key that was neither read nor ignored, is not among the generic keys of transformers'
  /// PretrainedConfig and known fine-tuning marks, and not allowed.
  void finish() const;

  const std::string& where() const { return where_; }

 private:
  const Json* find(std::string_view key);
  [[noreturn]] void wrong_type(std::string_view key, std::string_view expected, const Json& value) const;

  const Json* object_;
  std::string where_;
  std::vector<std::string> allowed_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace vitrine
