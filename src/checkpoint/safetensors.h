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
#include "base/progress.h"
#include "tensor/dtype.h"
#include "tensor/matrix_view.h"
#include "tensor/tensor.h"

namespace vitrine {

/// The scales of a quantized tensor that are stored apart (BlockScales): those of each of its matrices by rows, with no
/// gaps.
struct StoredScales {
  const std::byte* data = nullptr;
  std::int64_t block_rows = 1, block_cols = 1;
  const GroupTables* groups = nullptr;
};

/// One tensor of a file.
struct StoredTensor {
  std::string dtype;                ///< The format's name: `F32`, `BF16`, …
  std::optional<DType> type;        ///< Ours; empty for a type that the engine cannot compute with.
  std::vector<std::int64_t> shape;  ///< Any rank.
  std::span<const std::byte> bytes;
  std::string file;    ///< For messages.
  std::string name{};  ///< In the file, if it is known under another.
  std::optional<StoredScales> scales{};
  std::int64_t row_size = 0;    ///< Of codes in groups: the elements from one row to the next; 0: those of a row.
  std::int64_t n_elements = 0;  ///< If the shape is not known: theirs, and one more if that is odd.
};

/// A memory-mapped file of tensors. Opening it checks the whole header and reads no weights.
class SafetensorsFile {
 public:
  /// Throws BadInput if the file cannot be read, BadCheckpoint for a header that contradicts the file: lengths beyond
  /// its end, overlaps or gaps, sizes that contradict shape and type, names that appear twice.
  static SafetensorsFile open(const std::string& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  /// The texts of the header's `__metadata__`; what is not a text is left out.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::shared_ptr<const MappedFile> file() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Bytes that suffice for the header of `n` tensors of a model.
constexpr std::int64_t header_bytes_for(std::size_t n) { return 256 + 240 * static_cast<std::int64_t>(n); }

/// Receives tensors one after another, each in parts.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  /// Begins a tensor, after the last one is complete.
  virtual void begin(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) = 0;
  /// Appends to the tensor.
  virtual void append(std::span<const std::byte> bytes) = 0;
};

/// Writes a file tensor by tensor. The number of tensors need not be known in advance: space for the header is
/// reserved, and its unused part is filled with blanks, as the format allows.
class SafetensorsWriter : public TensorSink {
 public:
  /// Reserves `header_bytes` for the header. commit() throws OutOfCapacity if they do not suffice.
  SafetensorsWriter(const std::string& path, std::int64_t header_bytes);
  /// The same, to `sink`, which must outlive this object. `where` names it in errors.
  SafetensorsWriter(ByteSink& sink, std::string where, std::int64_t header_bytes);

  /// Sets a text of the header's `__metadata__`.
  void set_metadata(const std::string& name, std::string text) { metadata_[name] = std::move(text); }
  /// Appends a float32 tensor; `report` counts its elements.
  void add(const std::string& name, const Tensor& tensor, const ReportProgress& report = {});
  /// Begins a tensor; append() adds its bytes.
  void begin(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) override;
  /// The same for whole numbers, as I32 or I64.
  void add(const std::string& name, std::span<const std::int32_t> numbers) { add_numbers(name, "I32", numbers); }
  void add(const std::string& name, std::span<const std::int64_t> numbers) { add_numbers(name, "I64", numbers); }
  /// The same as rows of `columns` numbers.
  void add_rows(const std::string& name, std::span<const std::int32_t> numbers, std::int64_t columns) {
    begin_bytes(name, "I32", sizeof(std::int32_t), {std::ssize(numbers) / columns, columns});
    append(std::as_bytes(numbers));
  }
  /// Begins a tensor of another type of the format, as in `I32`, with its bytes of an element.
  void begin_bytes(const std::string& name, const char* type, std::int64_t element_bytes,
                   const std::vector<std::int64_t>& shape);
  void append(std::span<const std::byte> bytes) override;
  /// Completes the header and gives the file its name; until then nothing exists at the path. Throws InternalError if a
  /// tensor has too few or too many bytes.
  void commit();

 private:
  SafetensorsWriter(std::unique_ptr<ByteSink> file, std::string path, std::int64_t header_bytes);
  void check_complete() const;
  template <class T>
  void add_numbers(const std::string& name, const char* type, std::span<const T> numbers) {
    begin_bytes(name, type, sizeof(T), {std::ssize(numbers)});
    append(std::as_bytes(numbers));
  }

  std::unique_ptr<ByteSink> file_;  // if it is this object's own
  ByteSink& sink_;
  std::string path_;
  std::int64_t header_bytes_;
  std::int64_t promised_bytes_ = 0;  // by the header
  std::int64_t data_bytes_ = 0;
  std::map<std::string, std::string> metadata_ = {{"format", "pt"}};  // transformers requires it
  std::string header_;                                                // of the tensors
};

}  // namespace vitrine
