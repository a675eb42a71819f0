// Writes GGUF files, version 3: keys, then the list of tensors, then their bytes in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_writer.h"
#include "base/gguf.h"

namespace vitrine {

/// Keys and values in the format of the file. The caller adds each key only once.
class GgufKeys {
 public:
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
  void add(std::string_view key, std::uint32_t number);
  void add(std::string_view key, float number);
  void add(std::string_view key, bool flag);
  void add(std::string_view key, const std::vector<std::string>& texts);
  void add(std::string_view key, const std::vector<float>& numbers);
  void add(std::string_view key, const std::vector<std::int32_t>& numbers);
  void add(std::string_view key, const std::vector<bool>& flags);
  /// Copies a value from another file.
  void add(std::string_view key, const GgufValue& value);
  void add(const GgufKeys& others);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element, std::size_t count);

  std::uint64_t count_ = 0;
  std::string bytes_;
};

class GgufWriter {
 public:
  explicit GgufWriter(const std::string& path) : path_(path), writer_(path) {}

  /// Declares a tensor: its shape, outermost first; ggml's number of its type; its size in bytes.
  void add_tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                  std::int64_t bytes);
  /// The part of the file that precedes the data.
  std::string header(const GgufKeys& keys) const;
  /// Writes the header. No tensor may be added afterwards.
  void begin(const GgufKeys& keys);
  /// Appends bytes of the tensors, in the order of their declaration, and adds padding between tensors.
  void append(std::span<const std::byte> bytes);
  /// Renames the file to its path. Throws InternalError if bytes are missing.
  void commit();

 private:
  std::string path_;
  FileWriter writer_;
  std::string list_;
  std::vector<std::int64_t> sizes_;  // of the tensors, in bytes
  std::int64_t data_bytes_ = 0;      // of all declared tensors, with padding
  std::size_t current_ = 0;
  std::int64_t written_ = 0;  // of the current tensor
};

}  // namespace vitrine
