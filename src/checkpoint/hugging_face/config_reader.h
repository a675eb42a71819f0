// Reads a config.json. Every key must either be used or be known to have no effect.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace vitrine {

/// The largest size that a checkpoint may name.
constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;

/// Reads keys of one JSON object and records which were read. null counts as absent. A value of the wrong type throws
/// BadCheckpoint with the name of the key.
class ConfigReader {
 public:
  /// `where` names the file in errors; `allowed` lists unknown keys to accept, here and in nested objects.
  ConfigReader(const Json& object, std::string where, std::vector<std::string> allowed = {});

  bool contains(std::string_view key) const;  ///< The key is present, even if null.
  bool has(std::string_view key) const;       ///< The key is present and not null.
  bool is_text(std::string_view key) const;   ///< Its value is a text.
  std::vector<std::string> keys() const;      ///< All of the object.
  /// From 1 to `most`. Throws BadCheckpoint if the key is missing or the size is out of range.
  std::int64_t size(std::string_view key, std::int64_t most = kMaxSize);
  std::int64_t size_or(std::string_view key, std::int64_t otherwise);
  std::optional<std::int64_t> optional_size(std::string_view key);
  std::int64_t size_or_auto(std::string_view key, std::int64_t otherwise);  ///< The same, or "auto": `otherwise`.
  double number_or(std::string_view key, double otherwise);
  std::optional<double> optional_number(std::string_view key);
  double positive_or(std::string_view key, double otherwise);  ///< Throws BadCheckpoint for a number of 0 or less.
  double positive(std::string_view key);                       ///< The same; also throws if the key is missing.
  bool flag_or(std::string_view key, bool otherwise);
  bool truth_or(std::string_view key, bool otherwise);  ///< The same, or a number, which is true unless it is 0.
  std::string text_or(std::string_view key, std::string_view otherwise);
  std::vector<std::string> texts_or_empty(std::string_view key);
  std::map<std::string, std::string> texts_by_key(std::string_view key);  ///< An object of texts; absent: empty.
  std::vector<std::string> texts_or_one(std::string_view key);            ///< The same; a text alone is a list of one.
  /// The texts of a list of pairs [texts, times], each list repeated as often as it says; at most `most` texts.
  std::vector<std::string> repeated_texts_or_empty(std::string_view key, std::size_t most);
  std::vector<double> numbers(std::string_view key);  ///< A list. Throws if the key is missing.
  /// Two numbers, of which the second may be infinite: `Infinity`, or {"__float__": "Infinity"}.
  std::array<double, 2> range_or(std::string_view key, std::array<double, 2> otherwise);
  std::vector<std::int64_t> sizes_or_empty(std::string_view key);  ///< A list of whole numbers from 0.
  /// A size for each of `n` layers: those of a list, or one for all, or `otherwise` if the key is absent.
  std::vector<std::int64_t> sizes_of_layers(std::string_view key, std::size_t n, std::int64_t otherwise);
  std::optional<ConfigReader> object(std::string_view key);
  /// The object at `key`, which must be present, with the keys of this object that it lacks, except `not_inherited`.
  /// Its finish() checks the object's own keys.
  ConfigReader inheriting(std::string_view key, std::initializer_list<std::string_view> not_inherited);

  /// Counts the keys that `inheriting` has read as read here, too.
  void use_keys_of(const ConfigReader& inheriting) { used_.insert(inheriting.used_.begin(), inheriting.used_.end()); }
  /// Accepts a key that has no effect on what the model computes.
  void ignore(std::string_view key) { used_.emplace(key); }
  /// Throws Unsupported, with `expected`, unless a key has the value that the family computes with, which `holds` says,
  /// or is allowed.
  void expect(bool holds, std::string_view key, std::string_view expected);
  /// Throws Unsupported for a key that is present and neither null nor false, unless it is allowed.
  void refuse(std::string_view key);
  /// Throws Unsupported for a key that was neither read nor ignored, is not a generic key of transformers'
  /// PretrainedConfig or of a known tool, is not allowed, and does not say that something is
  /// absent: null, false, 0, an empty value, a factor of 1. Own models (model_type "vitrine") have no unknown keys.
  void finish() const;

  bool is_allowed(std::string_view key) const;  ///< The caller accepts the key.
  const std::string& where() const { return where_; }

 private:
  const Json* find(std::string_view key);
  [[noreturn]] void wrong_type(std::string_view key, std::string_view expected, const Json& value) const;

  const Json* object_;
  std::shared_ptr<const Json> merged_{};  ///< The object, if it inherits keys.
  const Json* own_;                       ///< Its own keys, which finish() checks.
  std::string where_;
  std::vector<std::string> allowed_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace vitrine
