// The safetensors format: an 8-byte length, a JSON header, then the tensors' bytes.
// Source: the format section of the safetensors library's README (Hugging Face).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace vitrine {

/// One tensor of a file, as it lies there.
struct StoredTensor {
  std::string dtype;                ///< The format's name: `F32`, `BF16`, …
  std::optional<DType> type;        ///< Ours, where it is one that products can read.
  std::vector<std::int64_t> shape;  ///< Any rank.
  std::span<const std::byte> bytes;
  std::string file;  ///< For messages.
};

/// A file of tensors, mapped. Opening it checks the whole header and reads no weights.
class SafetensorsFile {
 public:
  /// Throws BadInput where the file cannot be read, BadCheckpoint where the header lies: lengths beyond the file,
  /// overlaps or holes, sizes that contradict shape and type, names that stand twice.
  static SafetensorsFile open(const std::string& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  std::shared_ptr<const MappedFile> file() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, StoredTensor> tensors_;
};

/// Writes a file tensor by tensor, without knowing beforehand how many there will be: room for the header is reserved,
/// and what is left of it filled with spaces, as the format allows.
class SafetensorsWriter {
 public:
  /// `header_bytes`: room for the header; roughly 120 bytes a tensor and its name. OutOfCapacity if it proves too
  /// small.
  SafetensorsWriter(const std::string& path, std::int64_t header_bytes);

  /// Appends a float32 tensor.
  void add(const std::string& name, const Tensor& tensor);
  /// Begins a tensor whose bytes come by append().
  void begin(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape);
  void append(std::span<const std::byte> bytes);
  /// Completes the header and gives the file its name; before that nothing stands at the path. InternalError where
  /// bytes of a tensor are missing or too many.
  void commit();

 private:
  void check_complete() const;

  FileWriter writer_;
  std::string path_;
  std::int64_t header_bytes_;
  std::int64_t promised_bytes_ = 0;  // by the header so far
  std::int64_t data_bytes_ = 0;
  std::string header_ = R"({"__metadata__":{"format":"pt"})";  // transformers asks for it
};

}  // namespace vitrine
