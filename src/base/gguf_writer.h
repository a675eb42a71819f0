// Writing GGUF files, version 3: keys first, then the list of tensors, then their bytes, in order.
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

/// Keys and values, as they will stand in a file. Each key once: that is the caller's care.
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
  /// A value of another file.
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

  /// A tensor to come: its shape outermost first, ggml's type, its bytes.
  void add_tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                  std::int64_t bytes);
  /// Everything in front of the data.
  std::string header(const GgufKeys& keys) const;
  /// Writes the header. No further tensors after it.
  void begin(const GgufKeys& keys);
  /// The bytes of the tensors, in their order; padding between them is added.
  void append(std::span<const std::byte> bytes);
  /// Gives the file its name; before that nothing stands at the path. InternalError where bytes are missing.
  void commit();

 private:
  void pad(std::int64_t n);

  std::string path_;
  FileWriter writer_;
  std::string list_;
  std::vector<std::int64_t> sizes_;  // of the tensors, in bytes
  std::int64_t data_bytes_ = 0;      // that the list promises, with padding
  std::size_t current_ = 0;
  std::int64_t written_ = 0;  // of the current tensor
};

}  // namespace vitrine
