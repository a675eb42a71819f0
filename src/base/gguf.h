// Reads the header of a GGUF file: keys with typed values, then descriptions of the tensors. Every length is checked
// against the remaining size of the file. Arrays are decoded only when they are requested.
//
// Layout, little endian: "GGUF", uint32 version (2 or 3), uint64 number of tensors, uint64 number of keys. For each
// key: a string (uint64 length, bytes), uint32 type, value; an array is uint32 element type, uint64 count, elements.
// Then for each tensor: its name as a string, uint32 number of dimensions, uint64 sizes, innermost first, uint32 type,
// uint64 offset into the data. The data begin at the next multiple of general.alignment (default 32). Source:
// ggml-org/ggml, docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// A value, as stored in the file.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;   ///< Of an array.
  std::uint64_t count = 1;           ///< Elements of an array.
  std::span<const std::byte> bytes;  ///< Without the length of a string, without type and count of an array.
};

/// The description of a tensor in the file.
struct GgufTensor {
  std::string_view name;
  std::vector<std::int64_t> shape;  ///< Outermost first: [out, in]. One to four sizes of at least 1.
  std::uint32_t type = 0;           ///< ggml's number.
  std::uint64_t offset = 0;         ///< Into the data; not checked.
};

struct GgufContents {
  std::vector<GgufTensor> tensors;  ///< In the file's order.
  std::span<const std::byte> data;  ///< Offsets count from its beginning.
};

class GgufMetadata {
 public:
  /// Reads all keys. `file` must outlive this object, which keeps views of it; `path` names the file in errors. Throws
  /// BadCheckpoint if the file is malformed, Unsupported for version 1 and for big-endian files.
  static GgufMetadata parse(std::span<const std::byte> file, std::string_view path);

  std::string_view path() const { return path_; }
  const std::map<std::string_view, GgufValue>& values() const { return values_; }
  /// Returns null if the key is absent.
  const GgufValue* find(std::string_view key) const;

  // Each returns std::nullopt if the key is absent and throws BadCheckpoint if the value has another type.
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;  ///< Of any integer type, if it fits.
  std::optional<double> real(std::string_view key) const;           ///< f32 or f64.
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  std::optional<std::vector<float>> floats(std::string_view key) const;           ///< f32.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;  ///< Of any integer type.
  std::optional<std::vector<bool>> booleans(std::string_view key) const;

  /// Reads the rest of the file. Throws BadCheckpoint if it is malformed.
  GgufContents contents() const;

 private:
  const GgufValue* find_array(std::string_view key, const char* of, bool (*fits)(GgufType)) const;
  [[noreturn]] void bad_type(std::string_view key, const char* expected, GgufType got) const;

  std::string path_;
  std::span<const std::byte> file_;
  std::map<std::string_view, GgufValue> values_;
  std::uint64_t n_tensors_ = 0;
  std::size_t end_ = 0;  // where the descriptions of tensors begin
};

}  // namespace vitrine
