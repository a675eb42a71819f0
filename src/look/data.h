// The arrays of a page: named, shaped, grouped in blocks that are compressed together and read when a figure needs
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace vitrine {

/// A group of arrays.
struct LookBlock {
  std::string name;
  std::string bytes;  ///< Little-endian; each array begins at a multiple of 8.
  bool has_pictures = false;
};

/// Before the names of the arrays of a changed run.
constexpr std::string_view kAfter = "after:";
/// The block of operands, in which the same rows appear again and again.
constexpr std::string_view kCellsBlock = "cells";
/// The block of the figures at the top of a page.
constexpr std::string_view kTextBlock = "text";
/// The block of what ops cost.
constexpr std::string_view kCostsBlock = "costs";

class LookData {
 public:
  using Sizes = std::vector<std::int64_t>;

  /// The following arrays are those of a changed run: their names and blocks begin with `after:`. One that equals the
  /// array of the unchanged run takes no bytes.
  void begin_after() { prefix_ = kAfter; }
  /// Gives the changed run the arrays of a block of the unchanged one, which no change can reach.
  void share_with_after(std::string_view block);

  /// Adds an array of float, double or int32 to a block, which it creates if there is none of that name.
  template <class Values>
  void add(std::string_view block, const std::string& name, const Sizes& shape, const Values& values) {
    using T = std::remove_cvref_t<decltype(values[0])>;
    constexpr const char* kType = std::is_same_v<T, float> ? "f32" : std::is_same_v<T, double> ? "f64" : "i32";
    append(block, name, shape, kType, true, values.data(), values.size() * sizeof(T));
  }
  /// Adds a vector.
  template <class Values>
  void add(std::string_view block, const std::string& name, const Values& values) {
    add(block, name, {static_cast<std::int64_t>(values.size())}, values);
  }
  /// Adds numbers from 0 to 1 with 8 bits each, as `u8`: n means (n / 255)². Such an array is not exact.
  void add_picture(std::string_view block, const std::string& name, const Sizes& shape, std::span<const float> values);
  /// Names the rows of the last array.
  void label(const std::vector<std::string>& labels) { arrays_.back()["labels"] = labels; }

  /// `[{"name", "shape", "type", "block", "offset", "exact", "labels"?}]`
  const Json& arrays() const { return arrays_; }
  const std::vector<LookBlock>& blocks() const { return blocks_; }

 private:
  void append(std::string_view block, const std::string& name, const Sizes& shape, const char* type, bool exact,
              const void* values, std::size_t n_bytes);

  /// The entry of the array `name` of the unchanged run, if it has these elements; else null.
  const Json* same_before(const std::string& name, const Json& entry, const char* values, std::size_t n_bytes) const;

  std::string prefix_;
  Json arrays_ = Json::array();
  std::unordered_map<std::string, std::size_t> numbers_;  // of the arrays
  std::vector<LookBlock> blocks_;
};

/// A block as zlib (RFC 1950) in base64 with padding. Floats are compressed only if `is_tight`.
std::string packed(const LookBlock& block, bool is_tight);

}  // namespace vitrine
