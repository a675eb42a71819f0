// Writes a float32 matrix row by row in NumPy's .npy format.
// Source: numpy/lib/format.py, version 1.0 of the format.
#pragma once

#include <string>

#include "base/file_writer.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Writes `[rows, cols]` in float32. Rows are appended in order; commit() gives the file its name.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, std::int64_t rows, std::int64_t cols);
  void add(const Tensor& rows);
  void commit();  ///< Throws InternalError if rows are missing.

 private:
  FileWriter writer_;
  std::int64_t missing_;
};

}  // namespace vitrine
