// The parameters of one module of sentence-transformers, in a safetensors file of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/bind_tensors.h"
#include "tensor/param.h"

namespace vitrine {

/// Gives the tensors of a folder as parameters in float32, which sentence-transformers computes modules with, whatever
/// type the file has.
class DenseWeights {
 public:
  /// `name` begins the names of the parameters; their memory is added to `storage`. Throws as open_tensors().
  DenseWeights(const std::filesystem::path& folder, std::string name, std::vector<std::shared_ptr<const void>>& storage)
      : tensors_(open(folder)), name_(std::move(name)), storage_(storage) {}

  /// Throws BadCheckpoint for a tensor that is missing or has another shape, Unsupported for another type than F64,
  /// F32, F16 and BF16.
  Param matrix(const std::string& stored, std::int64_t rows, std::int64_t cols) {
    return read(stored, {rows, cols}, {rows, cols});
  }
  Param vector(const std::string& stored, std::int64_t size) { return read(stored, {size}, {size}); }
  /// Throws BadCheckpoint for a tensor that was not read.
  void finish() const;

 private:
  static StoredTensors open(const std::filesystem::path& folder);
  Param read(const std::string& stored, const std::vector<std::int64_t>& expected, const Shape& shape);

  StoredTensors tensors_;
  std::string name_;
  std::vector<std::shared_ptr<const void>>& storage_;
  std::set<std::string> used_;
};

/// The elements of a tensor as floats, row by row. Throws Unsupported for another type than F64, F32, F16 and BF16.
std::vector<float> floats_of(const StoredTensor& tensor, const std::string& name);

}  // namespace vitrine
