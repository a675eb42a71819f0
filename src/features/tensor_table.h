// The tensors of a dictionary's file, as parameters that view them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tensor/param.h"

namespace vitrine {

/// Which index of a stored matrix counts the rows of the parameter.
enum class Stored : std::uint8_t { by_rows, transposed };

/// Named tensors, of which readers take what they know. All functions throw BadCheckpoint, naming the tensor.
class TensorTable {
 public:
  /// A .safetensors or .npz file, told from its content. Throws BadInput if it cannot be read, Unsupported for a
  /// pickle.
  static TensorTable open(const std::string& path);
  TensorTable(std::string where, std::map<std::string, StoredTensor> tensors, std::shared_ptr<const void> storage)
      : where_(std::move(where)), tensors_(std::move(tensors)), storage_(std::move(storage)) {}

  const std::string& where() const { return where_; }
  std::shared_ptr<const void> storage() const { return storage_; }
  bool has(std::string_view name) const { return tensors_.contains(std::string(name)); }
  /// The first of these names that exists, else the first.
  std::string one_of(std::initializer_list<std::string_view> names) const;

  /// A matrix `[rows, cols]` of the parameter; a size of −1 is any.
  Param matrix(std::string_view name, Stored stored, std::int64_t rows = -1, std::int64_t cols = -1);
  /// Part `part` of `parts` of each row of `[rows, parts, cols]`.
  Param part(std::string_view name, std::int64_t part, std::int64_t parts, std::int64_t rows, std::int64_t cols);
  Param vector(std::string_view name, std::int64_t n);
  /// A vector of n elements, or a single number, as floats, which must be finite.
  std::vector<float> values(std::string_view name, std::int64_t n);
  /// A size of a tensor of this rank.
  std::int64_t size_of(std::string_view name, int axis, int rank);
  /// Accepts tensors that have no effect.
  void ignore(std::initializer_list<std::string_view> names);
  /// Throws for a tensor that no function has taken.
  void finish() const;

 private:
  const StoredTensor& take(std::string_view name);
  [[noreturn]] void bad_shape(std::string_view name, const StoredTensor& tensor, const std::string& expected) const;

  std::string where_;
  std::map<std::string, StoredTensor> tensors_;
  std::shared_ptr<const void> storage_;
  std::set<std::string, std::less<>> taken_{};
};

/// Throws Unsupported if the bytes are those of a Python pickle, also of one in PyTorch's zip archives.
void refuse_pickle(const std::string& where, std::span<const std::byte> bytes);

}  // namespace vitrine
