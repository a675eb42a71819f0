// Matrices in NumPy's .npy format: written row by row, and read.
// Source: numpy/lib/format.py, version 1.0 of the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_writer.h"
#include "tensor/tensor.h"

namespace vitrine {

/// The type of the elements of a file.
enum class NpyType : std::uint8_t { float32, int8, uint8 };
constexpr std::string_view name_of(NpyType type) {
  constexpr std::string_view kNames[] = {"float32", "int8", "uint8"};
  return kNames[static_cast<std::size_t>(type)];
}

/// Writes `[rows, cols]`. Rows are appended in order; commit() gives the file its name.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, std::int64_t rows, std::int64_t cols, NpyType type = NpyType::float32);
  void add(const Tensor& rows);
  /// Appends rows as bytes of the file's type.
  void add(std::span<const std::byte> rows);
  void commit();  ///< Throws InternalError if rows are missing.

 private:
  FileWriter writer_;
  std::int64_t missing_;  // bytes
};

/// A matrix of a file.
struct NpyMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> values{};
};
/// Reads a matrix of float32 or float64, in C order. Throws BadInput if the file cannot be read, BadCheckpoint for one
/// that is malformed, Unsupported for another type, order or number of axes.
NpyMatrix read_npy(const std::string& path);

}  // namespace vitrine
